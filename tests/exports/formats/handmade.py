"""What tests of formats with frontmatter share: programs made to measure, and lists given as texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input
from tests.exports.common import build_program, with_demos

CR = "\r"


def changed(**fields: Any) -> ExportedProgram:
    """A program of one call, with the `fields` of its prompt replaced, and only the inputs that it shows."""
    out = derive_export(build_program(method("vanilla")))
    prompt = replace(out.prompts[0], **fields)
    slot_names = {slot.name for message in prompt.messages for slot in message.slots}
    inputs = tuple(one for one in prompt.inputs if one.name in slot_names)
    return replace(out, prompts=(replace(prompt, inputs=inputs),))


def file_of(program: ExportedProgram, format: str) -> bytes:
    """The file of a program of one prompt."""
    (file,) = format_of(format).files(program).values()
    return file


def with_any_demos(program: RagProgram, data: st.DataObject) -> RagProgram:
    """`program` with random demonstrations; no two predictors have the same prompt."""
    return _distinct(with_demos(program, data))


def _distinct(program: RagProgram) -> RagProgram:
    """`program` with the name of each predictor in its instructions: a second same request is not sent.

    U+E000, which no prompt that is exported may hold, is left out.
    """
    for name, call in program.named_predictors():
        call.signature = call.signature.with_instructions(f"{name}: {_unmarked(call.signature.instructions)}")
        call.demos = [{field: _unmarked(value) for field, value in demo.items()} for demo in call.demos]
    return program


def _unmarked(value: Any) -> Any:
    return list(map(_unmarked, value)) if isinstance(value, list) else value.replace("\ue000", "")


def as_text(prompt: CompiledPrompt, one: Input, value: Any) -> str:
    """A list as the description of its input tells to write it."""
    if prompt.style_of(one.name) == "json":
        return json.dumps(value, ensure_ascii=False)
    return "\n".join(f"[{i}] {item}" for i, item in enumerate(value, 1)) or "none"


def with_texts(prompt: CompiledPrompt, inputs: Mapping[str, Any], *styles: str) -> dict[str, Any]:
    """`inputs` with each list that is shown in one of `styles` as a text."""
    lists = {one.name: one for one in prompt.inputs if one.many and prompt.style_of(one.name) in styles}
    return {
        name: as_text(prompt, lists[name], value) if name in lists else value
        for name, value in inputs.items()
    }
