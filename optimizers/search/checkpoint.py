"""Checkpoints the leader: a study's directory holds the compiled program of the best trial so far.

    STUDY/best ─► .best/<digest>/    program.json, provenance.json, recipe.toml, prompts/, run.json

`best` is a symbolic link that is replaced atomically. A reader therefore always finds a complete program,
even if the study is killed. The checkpoint holds no times: the same trials write the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragc.compiled.base import RUN, CompiledProgram
from ragc.compiled.verdict import NOT_MEASURED, intervals_to_json
from ragc.core.digest import digest
from ragc.core.files import remove
from ragc.errors import ArtefactError
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import dev_groups
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import FittedScores, select
from ragc.programs.base import RagProgram
from ragc.task.base import Task

BEST = "best"
"""The name of the compiled program in the study's directory."""

TRIES = 20
"""The most folder names tried for one program when earlier folders are damaged."""


class BestCheckpoint:
    """Writes the compiled program of the leader to `directory`."""

    def __init__(self, directory: Path, task: Task, builder: ProgramBuilder) -> None:
        self._directory, self._task, self._builder = directory, task, builder
        self._saved: tuple[int, int] | None = None  # the trial, and how many questions it had answered

    async def keep(self, trials: Sequence[TrialResult], fitted: FittedScores | None = None) -> None:
        """Writes the program that `select` chooses from `trials`, unless it was the last one written and
        answered no more questions since.

        `fitted` is the model of `trials`, if there is one already. Raises OSError.
        """
        task = self._task
        leader = select(trials, task.rule, fitted)
        if self._saved == (leader.number, len(leader.scores)):
            return
        program = await self._builder.program(leader.candidate)
        scores = await self._builder.demo_scores(leader.candidate)
        base = str(task.recipe.base.resolve())
        compiled = CompiledProgram.of(
            program,
            provenance=_provenance(task, trials[0], leader, scores),
            recipe=task.recipe.to_toml(),
            run={"base": base} | ({"salt": salt} if (salt := task.runtime.gateway.salt) else {}),
        )
        _put(self._directory, compiled, program)
        self._saved = leader.number, len(leader.scores)


def _provenance(
    task: Task, baseline: TrialResult, leader: TrialResult, earned: Mapping[str, Any]
) -> dict[str, Any]:
    scores = {"baseline": baseline.scores, "winner": leader.scores}
    groups = dev_groups(task)
    search = {"candidate": leader.candidate.to_json(), "trial": leader.number, "finished": False}
    failures = {"baseline": baseline.failures.to_json(), "winner": leader.failures.to_json()}
    return {
        **task.facts,
        "dev": {
            name: intervals_to_json(task.summarize(rows, groups[: len(rows)]))
            for name, rows in scores.items()
        },
        "failures": {"dev": failures},
        "verdict": NOT_MEASURED,
        "search": search | ({"demonstrations": dict(earned)} if earned else {}),
    }


def _put(directory: Path, compiled: CompiledProgram, program: RagProgram) -> None:
    """Writes `compiled` to a new folder, points `best` to it atomically, then removes the older folders."""
    home = directory / f".{BEST}"
    name = digest([compiled.fingerprint, dict(compiled.provenance)])[:16]
    for attempt in range(TRIES):
        folder = home / (f"{name}-{attempt}" if attempt else name)
        try:
            compiled.save(folder, program, checkpoint=True)
            break
        except ArtefactError:  # a damaged folder of that name is left unchanged
            if attempt == TRIES - 1:
                raise
    link = directory / f".{BEST}-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.relative_to(directory))
    link.replace(directory / BEST)
    for other in home.iterdir():
        if other.name != folder.name and not other.is_symlink():
            with suppress(OSError):
                remove(other, RUN)
