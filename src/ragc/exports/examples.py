"""Opens a compiled program for export: its prompts, dev questions as cases, a worked example.

A worked example is one traced question: each call with its messages, as its prompt gives them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core import event_loop
from ragc.core.files import read_text
from ragc.core.progress import SILENT
from ragc.errors import ArtefactError, UsageError
from ragc.exports.derive import derive_export
from ragc.programs.trace import Call
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram
from ragc.prompts.render import render

if TYPE_CHECKING:
    from ragc.compiled.opened import OpenProgram
    from ragc.compiled.resolve import Opening
    from ragc.core.progress import Progress
    from ragc.task.answering import Row


def case_of(program: ExportedProgram, row: Row) -> Case:
    """Returns the last call of an answered question as a case of its prompt, with the gold answers.

    Raises UsageError for a run without a call.
    """
    calls = [event for event in row.trace if isinstance(event, Call)]
    if not calls:
        raise UsageError(f"The run of question {row.question.id!r} made no call, so it is no case.")
    prompt = program.prompt(calls[-1].name)
    return Case(row.question.id, prompt.name, _inputs(prompt, calls[-1].inputs), row.question.answers)


def example_of(program: ExportedProgram, row: Row) -> dict[str, Any]:
    """Returns an answered question as a worked example, JSON values."""
    events = [event.to_json() for event in row.trace]
    for event, entry in zip(row.trace, events, strict=True):
        if isinstance(event, Call):
            entry["inputs"] = _inputs(program.prompt(event.name), event.inputs)
    question = row.question
    example = {
        "id": question.id,
        "question": question.question,
        "events": events,
        "answer": str(row.prediction),
    }
    return _with_messages(program, example)


def _inputs(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `inputs` that the prompt has."""
    return {input.name: inputs[input.name] for input in prompt.inputs if input.name in inputs}


def _with_messages(program: ExportedProgram, example: dict[str, Any]) -> dict[str, Any]:
    """Returns `example` with the messages that the inputs of each call give."""
    for event in example["events"]:
        if "call" in event:
            messages = render(program.prompt(event["call"]), event["inputs"])
            event["messages"] = [{"role": m.role, "content": m.content} for m in messages]
    return example


def example_at(path: Path, program: ExportedProgram) -> dict[str, Any]:
    """Returns the example in the file `path`, whose messages are rendered again from its inputs.

    Raises ArtefactError when it cannot be read, or a call in it does not belong to the program.
    """
    try:
        return _with_messages(program, json.loads(read_text(path)))
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise ArtefactError(f"{path} is no worked example of this program: {error}") from error


def open_for_export(
    path: str | Path, *, questions: int = 0, progress: Progress = SILENT, how: Opening
) -> ExportedProgram:
    """Opens the compiled program in the directory `path` for export. Calls no model without `questions`.

    With `questions`, that many dev questions, the first ones, are answered (replayed if stored): the last
    call of each becomes a case for the formats with cases, and the first answered question the worked
    example; `how` says how the program is opened then. Raises ArtefactError, and UsageError when there are
    fewer questions.
    """
    from ragc.compiled import base as compiled
    from ragc.compiled.opened import open_compiled
    from ragc.compiled.resolve import import_program

    loaded = compiled.load(path)
    import_program(loaded, how)
    program = derive_export(loaded)
    if not questions:
        return program
    opened = open_compiled(loaded, how)
    available = len(opened.task.dev)
    if available < questions:
        raise UsageError(f"{questions} dev questions were asked for, and the data of {path} has {available}.")
    rows = [row for row in event_loop.run(_answer(opened, questions, progress)) if not row.failure]
    example = example_of(program, rows[0]) if rows else None
    return replace(program, cases=tuple(case_of(program, row) for row in rows), example=example)


async def _answer(opened: OpenProgram, questions: int, progress: Progress) -> tuple[Row, ...]:
    from ragc.task.run import MeasuredRun

    run = MeasuredRun(opened.task, progress)
    await run.open()
    progress.phase("answering dev questions", questions)
    rows = await run.answer(opened.program, run.task.dev[:questions])
    progress.close()
    return rows
