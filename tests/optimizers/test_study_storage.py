"""A study whose storage is garbage, locked or gone, and what a kill may leave in it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest

from ragc.errors import StoreError, TargetUnavailable
from ragc.optimizers import compile as compiling
from ragc.store import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, identical, needs_demos


def cut_off(run: Run, after: int = 60) -> None:
    """A study that was broken off after so many requests."""

    def dying(request: ChatRequest) -> dict[str, Any]:
        sent.append(request)
        if len(sent) > after:
            raise TargetUnavailable("http://127.0.0.1:9/v1 broke the connection off.")
        return needs_demos(request)

    sent: list[ChatRequest] = []
    with pytest.raises(TargetUnavailable):
        run("out", target=ScriptedTarget(dying))


@pytest.mark.parametrize("garbage", [b"", b"not a database at all, but text" * 100])
def test_a_storage_of_garbage_is_one_sentence_and_an_empty_one_begins_anew(
    run: Run, folder: Path, garbage: bytes
) -> None:
    cut_off(run)
    path = compiling.study_directory(folder / "out") / "study.db"
    path.write_bytes(garbage)
    if garbage:
        with pytest.raises(StoreError, match=r"cannot be opened .*not a database"):
            run("out", resume=True)
        run("out")
    else:
        run("out", resume=True)
    run("whole", store=CallStore(None))
    assert identical(folder / "whole", folder / "out")


def test_a_record_that_is_none_is_one_sentence(run: Run, folder: Path) -> None:
    cut_off(run)
    with sqlite3.connect(compiling.study_directory(folder / "out") / "study.db") as rows:
        changed = rows.execute(
            "UPDATE study_user_attributes SET value_json = '[{}]' WHERE key LIKE 'batch:%'"
        ).rowcount
    assert changed
    with pytest.raises(StoreError, match=r"no record of a trial .*--resume"):
        run("out", resume=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the database."""
    rows = sqlite3.connect(path)
    rows.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        rows.rollback()
        rows.close()


def test_a_locked_storage_is_one_sentence_and_free_again_goes_on(run: Run, folder: Path) -> None:
    cut_off(run)
    path = compiling.study_directory(folder / "out") / "study.db"
    with locked(path), pytest.raises(StoreError, match=r"locked.*another process may hold it"):
        run("out", resume=True)
    run("out", resume=True)
    run("whole", store=CallStore(None))
    assert identical(folder / "whole", folder / "out")


@pytest.mark.parametrize("how", ["locked", "gone"])
def test_a_storage_that_is_lost_while_the_study_runs(run: Run, folder: Path, how: str) -> None:
    directory = compiling.study_directory(folder / "out")
    sent = []
    rows: list[sqlite3.Connection] = []

    def losing(request: ChatRequest) -> dict[str, Any]:
        sent.append(request)
        if len(sent) == 40 and how == "gone":
            shutil.rmtree(directory)
        elif len(sent) == 40:
            rows.append(sqlite3.connect(directory / "study.db", check_same_thread=False))
            rows[0].execute("BEGIN EXCLUSIVE")
        return needs_demos(request)

    with pytest.raises(StoreError, match=r"state of the study .*--resume"):
        run("out", target=ScriptedTarget(losing))
    assert not (folder / "out").exists()
    for connection in rows:
        connection.rollback()
        connection.close()
    rest = ScriptedTarget(needs_demos)
    run("out", target=rest, resume=True)
    whole = ScriptedTarget(needs_demos)
    run("whole", target=whole, store=CallStore(None))
    assert identical(folder / "whole", folder / "out")
    assert len(sent) + len(rest.requests) == len(whole.requests)


def test_what_a_kill_left_of_an_older_study_is_not_taken_up(run: Run, folder: Path) -> None:
    cut_off(run)
    (compiling.study_directory(folder / "out") / "recipe.toml").unlink()
    run("out", resume=True, sets=("search.trials=3",))
    run("whole", sets=("search.trials=3",), store=CallStore(None))
    assert identical(folder / "whole", folder / "out")


def test_a_trial_that_was_about_to_be_asked_when_the_process_died_is_no_obstacle(
    run: Run, folder: Path
) -> None:
    cut_off(run)
    url = f"sqlite:///{compiling.study_directory(folder / 'out') / 'study.db'}"
    optuna.load_study(study_name="ragc", storage=url).enqueue_trial({"knob.top_k": 9})
    run("out", resume=True)
    run("whole", store=CallStore(None))
    assert identical(folder / "whole", folder / "out")
