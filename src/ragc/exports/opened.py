"""From a compiled program on disk to what is exported: its prompts, and dev questions as cases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragc import loop
from ragc.errors import UsageError
from ragc.exports.derive import exported
from ragc.exports.prompt import ExportedProgram
from ragc.exports.worked import case_of, with_example

if TYPE_CHECKING:
    from ragc.optimizers.evaluation import Row
    from ragc.optimizers.opened import Opened
    from ragc.optimizers.resolving import Opening
    from ragc.progress import Progress


def opened(
    path: str | Path, *, questions: int = 0, progress: Progress | None = None, how: Opening | None = None
) -> ExportedProgram:
    """The compiled program in the directory `path`, ready to export. No model is called without `questions`.

    With `questions` that many dev questions, the first ones, are answered (replayed where the store has
    them): the last call of each becomes a case for the formats that carry cases, and the first question that
    was answered the worked example; `how` says how the program is opened then. Raises ArtefactError, and
    UsageError when there are fewer questions.
    """
    from ragc.optimizers import compiled

    loaded = compiled.load(path)
    program = exported(loaded)
    if not questions:
        return program
    from ragc.optimizers.opened import SILENT, open_compiled
    from ragc.optimizers.resolving import Opening

    found = open_compiled(loaded, how or Opening())
    if len(found.task.dev) < questions:
        raise UsageError(
            f"{questions} dev questions were asked for, and the data of {path} has {len(found.task.dev)}."
        )
    rows = [row for row in loop.run(_answered(found, questions, progress or SILENT)) if not row.failure]
    cases = tuple(case_of(program, row.question, row.trace) for row in rows)
    program = replace(program, cases=cases)
    if rows:
        first = rows[0]
        program = with_example(program, first.question, first.trace, str(first.prediction))
    return program


async def _answered(found: Opened, questions: int, progress: Progress) -> tuple[Row, ...]:
    from ragc.optimizers.evaluation import evaluate

    task = found.task
    progress.phase("opening the model", None)
    await task.runtime.open(progress.download)
    progress.phase("answering dev questions", questions)
    rows = await evaluate(
        found.program,
        task.dev[:questions],
        task.scorer,
        limit=asyncio.Semaphore(task.in_flight),
        done=lambda row: progress.step(),
    )
    progress.close()
    return rows
