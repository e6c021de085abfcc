"""A study whose storage is garbage, locked or gone, and what a kill may leave in it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
from filelock import FileLock

from ragc.errors import StoreError, TargetUnavailable
from ragc.optimizers.search import journal as journal_file
from ragc.optimizers.search import storage as study_file
from ragc.optimizers.search.storage import study_directory
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import thorough
from tests.optimizers.colours import Run, Unbroken, identical, needs_demos


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


def journal(folder: Path) -> Path:
    """The file of the study of `folder / out`."""
    return study_directory(folder / "out") / "study.journal"


@thorough
def test_a_locked_storage_is_one_sentence_and_free_again_goes_on(
    run: Run, unbroken: Unbroken, folder: Path
) -> None:
    cut_off(run)
    held = FileLock(f"{journal(folder)}.lock")
    with held, pytest.raises(StoreError, match=r"it is locked.*another process may hold it"):
        run("out", resume=True)
    run("out", resume=True)
    assert identical(unbroken()[0], folder / "out")


@thorough
@pytest.mark.parametrize("garbage", [b"[1]\n", b'{"op_code":5,"ragc.check":"0"}\n', b"half a line\n"])
def test_a_storage_that_is_damaged_while_the_study_runs(
    run: Run, unbroken: Unbroken, folder: Path, garbage: bytes
) -> None:
    sent = []

    def harming(request: ChatRequest) -> dict[str, Any]:
        sent.append(request)
        if len(sent) == 40:
            with journal(folder).open("ab") as file:
                file.write(garbage)
        return needs_demos(request)

    with pytest.raises(
        StoreError, match=r"line \d+ of study.journal is damaged.*begin anew without --resume"
    ):
        run("out", target=ScriptedTarget(harming))
    run("out")
    assert identical(unbroken()[0], folder / "out")


@thorough
@pytest.mark.parametrize("how", ["locked", "gone"])
def test_a_storage_that_is_lost_while_the_study_runs(
    run: Run, unbroken: Unbroken, folder: Path, how: str
) -> None:
    directory = study_directory(folder / "out")
    sent = []
    held = FileLock(f"{journal(folder)}.lock", is_singleton=False, thread_local=False)

    def losing(request: ChatRequest) -> dict[str, Any]:
        sent.append(request)
        if len(sent) == 40 and how == "gone":
            shutil.rmtree(directory)
        elif len(sent) == 40:
            held.acquire()
        return needs_demos(request)

    with pytest.raises(StoreError, match=r"state of the study .*--resume"):
        run("out", target=ScriptedTarget(losing))
    assert not (folder / "out").exists()
    held.release()
    rest = ScriptedTarget(needs_demos)
    run("out", target=rest, resume=True)
    whole, total = unbroken()
    assert identical(whole, folder / "out")
    assert len(sent) + len(rest.requests) == total


def test_what_a_kill_left_of_an_older_study_is_not_taken_up(
    run: Run, unbroken: Unbroken, folder: Path
) -> None:
    cut_off(run)
    (study_directory(folder / "out") / "recipe.toml").unlink()
    run("out", resume=True, sets=("search.trials=3",))
    assert identical(unbroken("search.trials=3")[0], folder / "out")


def test_what_a_round_tells_is_one_append_and_reads_as_if_written_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_file.storage(tmp_path, 1)
    synced, flush = list[int](), os.fsync

    def sync(file: int) -> None:
        synced.append(file)
        flush(file)

    monkeypatch.setattr(os, "fsync", sync)
    with journal_file.one_append(study):
        for value in (1, 2, 3):
            study.add_trial(optuna.trial.create_trial(value=value, params={}, distributions={}))
            assert len(study.trials) == value
            study.set_user_attr(f"batch {value}", [value])
    assert len(synced) == 1
    with suppress(KeyError), journal_file.one_append(study):
        study.set_user_attr("before", "the error")
        raise KeyError
    study.set_user_attr("after", "all")
    for reader in (study, study_file.storage(tmp_path, 1)):
        assert [trial.value for trial in reader.trials] == [1, 2, 3]
        assert reader.user_attrs == {
            "batch 1": [1], "batch 2": [2], "batch 3": [3], "before": "the error", "after": "all",
        }  # fmt: skip
