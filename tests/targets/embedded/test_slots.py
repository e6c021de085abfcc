"""Slots of the embedded model: a long beginning is computed once, whichever slots ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragc.targets.embedded import slots
from ragc.targets.embedded.slots import LONG, Slots

A, B = "a" * LONG, "b" * LONG


class Engine:
    """Slots that note what they were told, and write a file for each state."""

    def __init__(self, folder: Path, *, works: bool = True) -> None:
        self.folder, self.works = folder, works
        self.done: list[tuple[int, str]] = []

    def act(self, slot: int, action: str, name: str) -> bool:
        self.done.append((slot, action))
        if self.works and action == "save":
            (self.folder / name).write_bytes(bytes(100))
        return self.works

    def slots(self, count: int, engine: str = "engine") -> Slots:
        return Slots(count, self.folder, engine, self.act)


def ask(own: Slots, beginnings: Sequence[str]) -> list[int]:
    taken = []
    for beginning in beginnings:
        with own.take(beginning) as slot:
            taken.append(slot)
    return taken


def test_a_beginning_is_saved_once_and_restored_by_other_slots(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    own = engine.slots(2)
    with own.take(A) as first:
        pass
    with own.take(A) as again, own.take(A) as other:
        assert (again, other) == (first, 1 - first)
    assert engine.done == [(first, "save"), (other, "restore")]


def test_a_later_process_restores_what_an_earlier_one_saved(tmp_path: Path) -> None:
    ask(Engine(tmp_path).slots(1), [A])
    later = Engine(tmp_path)
    ask(later.slots(1), [A, B, "short"])
    ask(later.slots(1, "another engine"), [A])
    assert [action for _, action in later.done] == ["restore", "save", "save"]


def test_others_wait_for_the_first_of_a_beginning_and_nobody_else_does(tmp_path: Path) -> None:
    own = Engine(tmp_path).slots(3)
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        stack.enter_context(own.take(A))
        waiting = pool.submit(ask, own, [A])
        assert pool.submit(ask, own, [B]).result(10)
        assert not waiting.done()
        stack.close()
        assert waiting.result(10)


def test_a_state_that_cannot_be_written_or_read_costs_no_answer(tmp_path: Path) -> None:
    engine = Engine(tmp_path, works=False)
    assert ask(engine.slots(1), [A, B, A]) == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_an_error_frees_the_slot_and_leaves_no_state(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    own = engine.slots(1)
    with pytest.raises(ZeroDivisionError), own.take(A):
        raise ZeroDivisionError
    assert ask(own, [A]) == [0]


def test_the_least_recently_used_states_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MOST_BYTES", 250)
    ask(Engine(tmp_path).slots(1), [A, B, "c" * LONG, "d" * LONG])
    assert len(list(tmp_path.glob("*.state"))) == 2
