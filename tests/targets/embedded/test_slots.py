"""Slots of the embedded model: a long beginning is computed once, whichever slots ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

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
