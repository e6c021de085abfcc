"""The ledger of uses: private, appended by any number of processes, never read as empty when it is not."""

from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path

import pytest

from ragc.core.files import state_home
from ragc.errors import StoreError, UsageError
from ragc.store import uses
from ragc.store.uses import QuestionIndex, QuestionSet, Role, Use, ledger_file, opened, read

pytestmark = pytest.mark.usefixtures("home")


def texts(*numbers: int) -> list[str]:
    return [f"what is thing {n}" for n in numbers]


def use(role: Role, *numbers: int, work: str = "compile", recipe: str = "r") -> Use:
    return Use(role, work, QuestionSet.of(texts(*numbers)), recipe)


def put(*every: Use) -> None:
    with opened() as ledger:
        ledger.append(every)


def test_the_ledger_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ledger_file() == tmp_path / "home" / "uses" / "uses.jsonl"
    monkeypatch.delenv("RAGC_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert ledger_file() == tmp_path / "state" / "ragc" / "uses" / "uses.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_home() == tmp_path / ".local" / "state" / "ragc"
    monkeypatch.setenv("RAGC_HOME", "relative")
    with pytest.raises(UsageError, match="absolute"):
        ledger_file()


def test_what_is_recorded_is_read_once_each_and_is_private() -> None:
    first = [use("train", 1, 2), use("dev", 3)]
    put(*first)
    put(*first, use("dev", 3, recipe="other"), use("dev", *()))
    assert read(ledger_file()) == uses.UseLedger((*first, use("dev", 3, recipe="other")))
    assert stat.S_IMODE(ledger_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger_file().parent.stat().st_mode) == 0o700
    assert "thing" not in ledger_file().read_text()
    rows = [json.loads(line) for line in ledger_file().read_text().splitlines()]
    assert [bool(row["marks"]) for row in rows] == [True, True, False]


def test_evaluations_and_tests_are_no_search() -> None:
    put(use("test", 1), use("dev", 2, work="eval"), use("dev", 3))
    assert [one.questions.n for one in read(ledger_file()).searched] == [1]
    assert list(read(ledger_file()).searched) == [use("dev", 3)]


def test_questions_are_found_by_position() -> None:
    index = QuestionIndex(["Q: What is thing 2?", "what is thing 9", "3. what is thing 3"])
    assert index.positions_of(use("dev", 1, 2, 3).questions) == {0, 2}
    assert index.positions_of(QuestionSet.of(texts(9, 3, 2))) == {0, 1, 2}


@pytest.mark.parametrize("damage", [b'"n": 2', b'"role": "dev"', b'"marks": "'])
def test_damaged_and_torn_lines_are_counted(damage: bytes) -> None:
    put(use("dev", 1, 2), use("train", 3), use("dev", 4))
    lines = ledger_file().read_bytes().splitlines(keepends=True)
    ledger_file().write_bytes(lines[0].replace(damage, damage + b"1") + lines[1] + lines[2][:40])
    ledger = read(ledger_file())
    assert (ledger.uses, ledger.damaged) == ((use("train", 3),), 2)
    put(use("dev", 5))  # the torn line harms no other
    assert read(ledger_file()).uses == (use("train", 3), use("dev", 5))


def test_a_set_whose_marks_are_in_a_damaged_line_is_counted_as_damaged() -> None:
    put(use("dev", 1, 2))
    put(use("dev", 1, 2, recipe="other"))
    lines = ledger_file().read_bytes().splitlines(keepends=True)
    ledger_file().write_bytes(lines[0][:-9] + b"\n" + lines[1])
    assert read(ledger_file()).damaged == 2
    put(use("dev", 1, 2, recipe="third"))
    assert all(one.questions.marks for one in read(ledger_file()).uses)


def test_a_ledger_that_is_something_else_is_named() -> None:
    ledger_file().mkdir(parents=True)
    with pytest.raises(StoreError, match=r"The ledger of uses .* cannot be read or written .*folder"):
        put(use("dev", 1))


def append_many(name: str) -> None:
    for n in range(20):
        put(use("dev", n, recipe=name))


def test_processes_lose_no_use() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(append_many, ["a", "b"])
    ledger = read(ledger_file())
    assert (len(ledger.uses), ledger.damaged) == (40, 0)
