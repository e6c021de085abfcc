"""Slots of the embedded model: a long beginning is computed once, whichever slots ask for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragc.targets.embedded import slots
from ragc.targets.embedded.slots import LONG, Slots

Prompt = list[dict[str, str]]


def prompt(beginning: str, question: str = "?", length: int = LONG) -> Prompt:
    return [
        {"role": "system", "content": beginning.ljust(length)},
        {"role": "user", "content": question},
    ]


class Engine:
    """Stands for llama.cpp: what each slot holds, what was written, and which beginnings were computed."""

    def __init__(self, count: int) -> None:
        self.slots = Slots(count, self.save, self.restore)
        self.holds: dict[int, str] = {}
        self.written: dict[str, str] = {}
        self.computed: list[str] = []
        self.saves, self.peak, self.busy = True, 0, 0
        self.lock = threading.Lock()

    def save(self, slot: int, name: str) -> bool:
        with self.lock:
            if self.saves:
                self.written[name] = self.holds[slot]
                (self.slots.folder / name).write_bytes(b"state")
            return self.saves

    def restore(self, slot: int, name: str) -> bool:
        with self.lock:
            self.holds[slot] = self.written[name]
            return True

    def ask(
        self, messages: Prompt, given_up: Callable[[], bool] = lambda: False, fail: bool = False
    ) -> int | None:
        with self.slots.acquire(messages, given_up) as slot:
            if slot is None:
                return None
            beginning = messages[0]["content"].strip()
            with self.lock:
                if self.holds.get(slot) != beginning:
                    self.computed.append(beginning)
                self.busy += 1
                self.peak = max(self.peak, self.busy)
            time.sleep(0.01)
            with self.lock:
                self.busy -= 1
            if fail:
                raise RuntimeError("the model failed")
            self.holds[slot] = beginning
            return slot


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
    assert not engine.written


def test_a_prompt_goes_on_where_the_last_one_was_most_like_it(engine: Engine) -> None:
    grown = [{"role": "user", "content": "First the river. " * 9}]
    first = engine.ask(grown)
    others = [engine.ask([{"role": "user", "content": name * 90}]) for name in "xy"]
    assert first not in others
    assert engine.ask([{"role": "user", "content": grown[0]["content"] + "Then the sea."}]) == first


def test_a_first_request_that_fails_leaves_the_beginning_to_the_next(engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        engine.ask(prompt("a"), fail=True)
    assert not engine.written
    all_at_once(engine, [prompt("a", f"{i}?") for i in range(4)])
    assert engine.computed == ["a", "a"]


def test_a_state_that_cannot_be_written_costs_time_and_nothing_else(engine: Engine) -> None:
    engine.saves = False
    assert None not in all_at_once(engine, [prompt("a", f"{i}?") for i in range(9)])
    assert engine.peak == 3


def test_whoever_waits_can_give_up(engine: Engine) -> None:
    with engine.slots.acquire(prompt("a"), lambda: False) as slot:
        assert slot is not None
        engine.holds[slot] = "a"
        begun = time.monotonic()
        assert engine.ask(prompt("a"), given_up=lambda: time.monotonic() > begun + 0.2) is None
    assert engine.ask(prompt("a")) is not None


def test_the_states_used_least_recently_go_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MOST_BYTES", 2 * len(b"state"))
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
