"""Slots of the embedded model: a long beginning is computed once, whichever slots ask for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragc.targets.embedded import slots
from ragc.targets.embedded.prefix_states import PrefixStates, state_key
from ragc.targets.embedded.slots import MIN_SAVED_CHARS, Slots

Prompt = list[dict[str, str]]


def prompt(beginning: str, question: str = "?", length: int = MIN_SAVED_CHARS) -> Prompt:
    return [
        {"role": "system", "content": beginning.ljust(length)},
        {"role": "user", "content": question},
    ]


class Engine:
    """Stands for llama.cpp: what each slot holds, what was written, and which beginnings were computed."""

    def __init__(self, count: int, states: PrefixStates | None = None) -> None:
        self.slots = Slots(count, self, states)
        self.holds: dict[int, str] = {}
        self.computed: list[str] = []
        self.saves, self.computes, self.peak, self.busy = True, True, 0, 0
        self.lock = threading.Lock()

    def prefix(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, list[int]]:
        beginning = messages[0]["content"].strip()
        tokens = [ord(letter) for letter in beginning]
        return state_key("weights", [], tokens), tokens

    def compute(self, slot: int, tokens: Sequence[int]) -> int | None:
        time.sleep(0.01)
        with self.lock:
            if not self.computes:
                return None
            self.holds[slot] = "".join(map(chr, tokens))
            self.computed.append(self.holds[slot])
            return len(tokens)

    def save(self, slot: int, name: str) -> bool:
        with self.lock:
            if self.saves:
                (self.slots.folder / name).write_text(self.holds[slot])
            return self.saves

    def restore(self, slot: int, name: str) -> int | None:
        with self.lock:
            self.holds[slot] = (self.slots.folder / name).read_text()
            return len(self.holds[slot])

    def ask(
        self, messages: Prompt, given_up: Callable[[], bool] = lambda: False, fail: bool = False
    ) -> int | None:
        with self.slots.acquire(messages, given_up) as lease:
            if lease is None:
                return None
            beginning = messages[0]["content"].strip()
            with self.lock:
                if self.holds.get(lease.slot) != beginning:
                    self.computed.append(beginning)
                self.busy += 1
                self.peak = max(self.peak, self.busy)
            time.sleep(0.01)
            with self.lock:
                self.busy -= 1
            if fail:
                raise RuntimeError("the model failed")
            self.holds[lease.slot] = beginning
            return lease.slot


@pytest.fixture
def engine() -> Iterator[Engine]:
    instance = Engine(3)
    yield instance
    instance.slots.close()


def all_at_once(engine: Engine, prompts: list[Prompt]) -> list[int | None]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(engine.ask, prompts))


def test_a_long_beginning_is_computed_once_for_all_slots(engine: Engine) -> None:
    used = all_at_once(engine, [prompt("a", f"{i}?") for i in range(9)])
    assert engine.computed == ["a"]
    assert set(used) == {0, 1, 2}


def test_a_beginning_that_comes_back_is_read_back(engine: Engine) -> None:
    for beginning in ("a", "b", "a", "b"):
        all_at_once(engine, [prompt(beginning, f"{i}?") for i in range(6)])
    assert sorted(engine.computed) == ["a", "b"]


def test_different_beginnings_do_not_wait_for_each_other(engine: Engine) -> None:
    used = all_at_once(engine, [prompt(name) for name in "abc"])
    assert sorted(engine.computed) == ["a", "b", "c"]
    assert set(used) == {0, 1, 2}


def test_short_beginnings_keep_to_their_slot_and_are_not_written(engine: Engine) -> None:
    first = engine.ask(prompt("a", length=90))
    assert engine.ask(prompt("b", length=90)) != first
    assert engine.ask(prompt("a", "else?", length=90)) == first
    assert not list(engine.slots.folder.iterdir())


def test_a_prompt_goes_on_where_the_last_one_was_most_like_it(engine: Engine) -> None:
    grown = [{"role": "user", "content": "First the river. " * 9}]
    first = engine.ask(grown)
    others = [engine.ask([{"role": "user", "content": name * 90}]) for name in "xy"]
    assert first not in others
    assert engine.ask([{"role": "user", "content": grown[0]["content"] + "Then the sea."}]) == first


def test_a_first_request_that_fails_leaves_the_computed_beginning(engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        engine.ask(prompt("a"), fail=True)
    all_at_once(engine, [prompt("a", f"{i}?") for i in range(4)])
    assert engine.computed == ["a"]


def test_the_first_request_tells_how_many_tokens_were_computed_for_it(engine: Engine) -> None:
    with engine.slots.acquire(prompt("abc"), lambda: False) as first:
        assert first is not None
        assert first.computed == 3
    with engine.slots.acquire(prompt("abc", "else?"), lambda: False) as second:
        assert second is not None
        assert second.computed == 0


@pytest.mark.parametrize("ability", ["computes", "saves"])
def test_a_beginning_that_cannot_be_computed_or_written_costs_time_and_nothing_else(
    engine: Engine, ability: str
) -> None:
    assert getattr(engine, ability)
    setattr(engine, ability, False)
    assert None not in all_at_once(engine, [prompt("a", f"{i}?") for i in range(9)])
    assert engine.peak == 3


def test_a_later_process_loads_what_an_earlier_one_computed(tmp_path: Path) -> None:
    computed = []
    for _ in range(2):
        engine = Engine(2, PrefixStates(tmp_path))
        all_at_once(engine, [prompt("a", f"{i}?") for i in range(4)])
        computed.append(engine.computed)
        engine.slots.close()
    assert computed == [["a"], []]


@pytest.mark.parametrize("content", ["", "a foreign state of another length"])
def test_a_kept_state_that_cannot_be_used_is_computed_anew(tmp_path: Path, content: str) -> None:
    states, own = PrefixStates(tmp_path / "kept"), tmp_path / "own"
    key, _ = Engine(1).prefix(prompt("a"))
    own.write_text(content)  # intact as a file, and not what the engine wrote for this prefix
    states.save(key, own)
    engine = Engine(2, states)
    all_at_once(engine, [prompt("a", f"{i}?") for i in range(4)])
    assert engine.computed == ["a"]
    engine.slots.close()


def test_whoever_waits_can_give_up(engine: Engine) -> None:
    with ExitStack() as leases:
        for name in "abc":
            leases.enter_context(engine.slots.acquire(prompt(name), lambda: False))
        begun = time.monotonic()
        assert engine.ask(prompt("a"), given_up=lambda: time.monotonic() > begun + 0.2) is None
    assert engine.ask(prompt("a")) is not None


def test_the_states_used_least_recently_go_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MOST_BYTES", 2)  # a state is one letter here
    for name in "abacdef":
        engine.ask(prompt(name))
    assert len(list(engine.slots.folder.iterdir())) == 2


def test_folders_of_processes_that_died_are_removed() -> None:
    dead = Engine(1)
    dead.ask(prompt("a"))
    dead.slots._lock.release()  # as the system does for a process that was killed
    alive = Engine(1)
    assert not dead.slots.folder.exists()
    other = Engine(1)
    assert alive.slots.folder.exists()
    for engine in (alive, other):
        engine.slots.close()


def test_closing_removes_the_files() -> None:
    engine = Engine(1)
    engine.ask(prompt("a"))
    engine.slots.close()
    assert not engine.slots.folder.exists()
