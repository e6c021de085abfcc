"""A study whose storage is garbage, locked or gone, and what a kill may leave in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from ragc.errors import StoreError, TargetUnavailable
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
