"""The best so far: while a study runs, its directory holds a compiled program of its leader.

    STUDY/best ─► .best/<digest>/    program.json, provenance.json, recipe.toml, prompts/, run.json

`best` is a link that is replaced at once, so whoever opens it finds a whole program, whenever the study is
killed. What it leads to says nothing of times: the same trials leave the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragc.core import outputs
from ragc.core.digest import digest
from ragc.errors import ArtefactError
from ragc.optimizers.results.compiled import RUN, CompiledProgram
from ragc.optimizers.results.verdict import NOT_MEASURED, intervals_to_json, summarize
from ragc.optimizers.search.builder import ProgramBuilder
from ragc.optimizers.search.selection import select
from ragc.optimizers.search.trial import TrialResult
from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram

BEST = "best"
"""The name of the compiled program in the study's directory."""

TRIES = 20
"""Folders that are tried for one program, where those before were damaged."""


class BestCheckpoint:
    """Keeps the compiled program of the leader in `directory`."""

    def __init__(self, directory: Path, task: Task, maker: ProgramBuilder) -> None:
        self._directory, self._task, self._maker = directory, task, maker
        self._saved_trial: int | None = None

    async def keep(self, trials: Sequence[TrialResult]) -> None:
        """Write the program that would be compiled after `trials`, unless it is there. Raises OSError."""
        task = self._task
        leader = select(trials, task.objectives, task.pick)
        if leader.number == self._saved_trial:
            return
        program = await self._maker.program(leader.candidate)
        scores = await self._maker.demo_scores(leader.candidate)
        base = str(task.recipe.base.resolve())
        compiled = CompiledProgram.of(
            program,
            provenance=_provenance(task, trials[0], leader, scores),
            recipe=task.recipe.to_toml(),
            run={"base": base},
        )
        _put(self._directory, compiled, program)
        self._saved_trial = leader.number


def _provenance(
    task: Task, baseline: TrialResult, leader: TrialResult, earned: Mapping[str, Any]
) -> dict[str, Any]:
    scores = {"baseline": baseline.scores, "winner": leader.scores}
    search = {"candidate": leader.candidate.to_json(), "trial": leader.number, "finished": False}
    failures = {"baseline": baseline.failures.to_json(), "winner": leader.failures.to_json()}
    return {
        **task.facts,
        "dev": {name: intervals_to_json(summarize(task, rows)) for name, rows in scores.items()},
        "failures": {"dev": failures},
        "verdict": NOT_MEASURED,
        "search": search | ({"demonstrations": dict(earned)} if earned else {}),
    }


def _put(directory: Path, compiled: CompiledProgram, program: RagProgram) -> None:
    """Write `compiled` beside what is there, lead `best` to it at once, then drop the older one."""
    home = directory / f".{BEST}"
    name = digest([compiled.fingerprint, dict(compiled.provenance)])[:16]
    for attempt in range(TRIES):
        folder = home / (f"{name}-{attempt}" if attempt else name)
        try:
            compiled.save(folder, program)
            break
        except ArtefactError:  # one that was damaged meanwhile stays as it is
            if attempt == TRIES - 1:
                raise
    link = directory / f".{BEST}-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.relative_to(directory))
    link.replace(directory / BEST)
    for other in home.iterdir():
        if other.name != folder.name and not other.is_symlink():
            with suppress(OSError):
                outputs.remove(other, RUN)
