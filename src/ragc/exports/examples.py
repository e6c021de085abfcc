"""Loads a compiled program for export: its prompts, dev questions as cases, a worked example.

A worked example is one traced question: each call with its messages, checked against the prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core import event_loop
from ragc.core.files import read_text
from ragc.core.progress import SILENT
from ragc.errors import ArtefactError, UsageError
from ragc.exports.derive import derive_export
from ragc.programs.trace import Call, Event
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram
from ragc.prompts.render import check_inputs, render
from ragc.records import Question

if TYPE_CHECKING:
    from ragc.compiled.opened import OpenProgram
    from ragc.compiled.resolve import Opening
    from ragc.core.progress import Progress
    from ragc.task.answering import Row


def with_example(
    program: ExportedProgram, question: Question, events: Iterable[Event], answer: str
) -> ExportedProgram:
    """Returns `program` with the traced run of a `question` of the dev or train split as its example.

    Raises UsageError for a question of the test split.
    """
    _refuse_test(question)
    entries = [_event(program, event) for event in events]
    example = {"id": question.id, "question": question.question, "events": entries, "answer": answer}
    return replace(program, example=example)


def case_of(program: ExportedProgram, question: Question, events: Iterable[Event]) -> Case:
    """Returns the last call of a traced run as a case of its prompt, with the gold answers of `question`.

    Raises UsageError for a question of the test split, or a run without a call.
    """
    _refuse_test(question)
    calls = [event for event in events if isinstance(event, Call)]
    if not calls:
        raise UsageError(f"The run of question {question.id!r} made no call, so it is no case.")
    prompt = program.prompt(calls[-1].name)
    return Case(question.id, prompt.name, _prompt_inputs(prompt, calls[-1].inputs), question.answers)


def _refuse_test(question: Question) -> None:
    if question.split == "test":
        raise UsageError(
            f"Question {question.id!r} is of the test split; exports hold dev or train questions."
        )


def _event(program: ExportedProgram, event: Event) -> dict[str, Any]:
    entry = event.to_json()
    if isinstance(event, Call):
        prompt = program.prompt(event.name)
        entry["inputs"] = _prompt_inputs(prompt, event.inputs)
        entry["messages"] = _messages(prompt, entry["inputs"])
    return entry


def _messages(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in render(prompt, inputs)]


def _prompt_inputs(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `inputs` that the prompt has."""
    own_inputs = {one.name: inputs[one.name] for one in prompt.inputs if one.name in inputs}
    check_inputs(prompt, own_inputs)
    return own_inputs


def example_at(path: Path, program: ExportedProgram) -> ExportedProgram:
    """Returns `program` with the example in the file `path`, whose messages are rendered again from its
    inputs.

    Raises ArtefactError when it cannot be read, or a call in it does not belong to the program.
    """
    try:
        example = json.loads(read_text(path))
        for event in example["events"]:
            if "call" in event:
                prompt = program.prompt(event["call"])
                event["messages"] = _messages(prompt, event["inputs"])
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise ArtefactError(f"{path} is no worked example of this program: {error}") from error
    return replace(program, example=example)


def open_for_export(
    path: str | Path, *, questions: int = 0, progress: Progress | None = None, how: Opening | None = None
) -> ExportedProgram:
    """Opens the compiled program in the directory `path` for export. Calls no model without `questions`.

    With `questions`, that many dev questions, the first ones, are answered (replayed if stored): the last
    call of each becomes a case for the formats with cases, and the first answered question the worked
    example; `how` says how the program is opened then. Raises ArtefactError, and UsageError when there are
    fewer questions.
    """
    from ragc.compiled import base as compiled
    from ragc.compiled.resolve import Opening, import_program

    loaded = compiled.load(path)
    import_program(loaded, how or Opening())
    program = derive_export(loaded)
    if not questions:
        return program
    from ragc.compiled.opened import open_compiled

    opened_program = open_compiled(loaded, how or Opening())
    if len(opened_program.task.dev) < questions:
        raise UsageError(
            f"{questions} dev questions were asked for, and the data of {path} has "
            f"{len(opened_program.task.dev)}."
        )
    rows = [
        row
        for row in event_loop.run(_answer_questions(opened_program, questions, progress or SILENT))
        if not row.failure
    ]
    cases = tuple(case_of(program, row.question, row.trace) for row in rows)
    program = replace(program, cases=cases)
    if rows:
        first = rows[0]
        program = with_example(program, first.question, first.trace, str(first.prediction))
    return program


async def _answer_questions(
    opened_program: OpenProgram, questions: int, progress: Progress
) -> tuple[Row, ...]:
    from ragc.task.run import MeasuredRun

    run = MeasuredRun(opened_program.task, progress)
    await run.open()
    progress.phase("answering dev questions", questions)
    rows = await run.answer(opened_program.program, run.task.dev[:questions])
    progress.close()
    return rows
