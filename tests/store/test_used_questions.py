"""The record of used questions: private, written by many processes, never read as empty when it is not."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from ragc.errors import StoreError, UsageError
from ragc.store.used_questions import database, opened, question_digest
from tests.support.used import recorded

pytestmark = pytest.mark.usefixtures("home")


def digests(*numbers: int) -> list[str]:
    return [question_digest(f"what is thing {n}") for n in numbers]


def use(role: str, *numbers: int, work: str = "compile", recipe: str = "r") -> None:
    with opened() as record:
        record.add(role, work, digests(*numbers), recipe)


def roles(*numbers: int, own: tuple[int, ...] = ()) -> dict[int, str]:
    """The roles of questions in searches, by their number; `own` is a set of the study's own."""
    with opened(write=False) as record:
        found = record.roles(digests(*numbers), [digests(*own)])
    return {n: found[digests(n)[0]] for n in numbers if digests(n)[0] in found}


def test_the_record_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert database() == tmp_path / "home" / "uses" / "questions.db"
    monkeypatch.delenv("RAGC_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert database() == tmp_path / "state" / "ragc" / "uses" / "questions.db"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert database() == tmp_path / ".local" / "state" / "ragc" / "uses" / "questions.db"
    monkeypatch.setenv("RAGC_HOME", "relative")
    with pytest.raises(UsageError, match="absolute"):
        database()


def test_what_is_recorded_is_there_once_and_is_private() -> None:
    for _ in range(2):
        use("train", 1, 2)
        use("dev", 3)
        use("dev")
    use("dev", 3, recipe="other")
    assert recorded() == [("train", "compile", 2), ("dev", "compile", 1), ("dev", "compile", 1)]
    assert stat.S_IMODE(database().stat().st_mode) == 0o600
    assert stat.S_IMODE(database().parent.stat().st_mode) == 0o700
    assert [path.name for path in database().parent.iterdir()] == ["questions.db"]
    assert b"thing" not in database().read_bytes()


def test_reading_creates_nothing() -> None:
    assert roles(1) == {}
    assert not database().parent.exists()


def test_evaluations_and_tests_are_no_search() -> None:
    use("test", 1)
    use("dev", 2, work="eval")
    use("dev", 3)
    use("train", 3, 4)
    assert roles(1, 2, 3, 4, 5) == {3: "train and dev", 4: "train"}
    assert roles(3, 4, own=(3, 4)) == {3: "dev"}, "a set of the study's own does not count"
    with opened(write=False) as record:
        assert record.counts() == (1, 2)


@pytest.mark.parametrize("error", [OSError("no space"), UsageError("no question is left.")])
def test_a_block_that_fails_records_nothing(error: Exception) -> None:
    def fail() -> None:
        with opened() as record:
            record.add("dev", "compile", digests(1, 2))
            raise error

    use("dev", 1)
    with pytest.raises((StoreError, UsageError)):
        fail()
    assert recorded() == [("dev", "compile", 1)]


def test_a_record_that_is_something_else_is_named() -> None:
    database().mkdir(parents=True)
    with pytest.raises(StoreError, match=r"The record of used questions .* cannot be read or written .*\.$"):
        use("dev", 1)
    with pytest.raises(StoreError, match="cannot be read or written"):
        roles(1)


def test_a_record_of_another_version_is_named_and_left() -> None:
    database().parent.mkdir(parents=True)
    with closing(sqlite3.connect(database())) as rows, rows:
        rows.execute("CREATE TABLE uses (id TEXT)")
        rows.execute("INSERT INTO uses VALUES ('kept')")
    with pytest.raises(StoreError, match=r"no column named role.*delete it, and .*\.$"):
        use("dev", 1)
    with pytest.raises(StoreError, match="delete it"):
        roles(1)
    with closing(sqlite3.connect(database())) as rows:
        assert rows.execute("SELECT * FROM uses").fetchall() == [("kept",)]
        assert rows.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


def use_many(name: str) -> None:
    for n in range(20):
        use("dev", n, recipe=name)


def test_processes_lose_no_use() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(use_many, ["a", "b"])
    assert recorded() == [("dev", "compile", 1)] * 40
