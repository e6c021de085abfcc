"""A worked example: one traced question, each call with its messages, checked against the prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragc import inputs
from ragc.errors import ArtefactError, UsageError
from ragc.exports.prompt import Case, CompiledPrompt, ExportedProgram
from ragc.exports.render import check_inputs, render
from ragc.programs.trace import Call, Event
from ragc.records import Question


def with_example(
    program: ExportedProgram, question: Question, events: Iterable[Event], answer: str
) -> ExportedProgram:
    """`program` with the traced run of a `question` of the dev or train split as its example.

    Raises UsageError for a question of the test split.
    """
    _refuse_test(question)
    said = [_event(program, event) for event in events]
    example = {"id": question.id, "question": question.question, "events": said, "answer": answer}
    return replace(program, example=example)


def case_of(program: ExportedProgram, question: Question, events: Iterable[Event]) -> Case:
    """The last call of a traced run as a case of its prompt, with the gold answers of `question`.

    Raises UsageError for a question of the test split, or a run without a call.
    """
    _refuse_test(question)
    calls = [event for event in events if isinstance(event, Call)]
    if not calls:
        raise UsageError(f"The run of question {question.id!r} made no call, so it is no case.")
    prompt = program.prompt(calls[-1].name)
    return Case(question.id, prompt.name, _shown(prompt, calls[-1].inputs), question.answers)


def _refuse_test(question: Question) -> None:
    if question.split == "test":
        raise UsageError(
            f"Question {question.id!r} is of the test split; exports hold dev or train questions."
        )


def _event(program: ExportedProgram, event: Event) -> dict[str, Any]:
    said = event.to_json()
    if isinstance(event, Call):
        prompt = program.prompt(event.name)
        said["inputs"] = _shown(prompt, event.inputs)
        said["messages"] = _messages(prompt, said["inputs"])
    return said


def _messages(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in render(prompt, inputs)]


def _shown(prompt: CompiledPrompt, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the `given` inputs that the prompt has."""
    made = {one.name: given[one.name] for one in prompt.inputs if one.name in given}
    check_inputs(prompt, made)
    return made


def example_at(path: Path, program: ExportedProgram) -> ExportedProgram:
    """`program` with the example in the file `path`, whose messages are made anew from its inputs.

    Raises ArtefactError when it cannot be read, or a call of it is none of the program's.
    """
    try:
        example = json.loads(inputs.read_text(path))
        for event in example["events"]:
            if "call" in event:
                prompt = program.prompt(event["call"])
                event["messages"] = _messages(prompt, event["inputs"])
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise ArtefactError(f"{path} is no worked example of this program: {error}") from error
    return replace(program, example=example)
