"""What files of several formats say beside the messages, and which names of inputs they refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ragc.exports.prompt import CompiledPrompt, ExportedProgram, NotExpressible

CAN = ("jinja2", "openai-json")
"""The formats that can say every prompt."""


def told(program: ExportedProgram, prompt: CompiledPrompt, how: str) -> dict[str, Any]:
    """JSON values that go with the messages of `prompt`; `how` is a sentence on loading them."""
    from ragc.exports.parse import reading

    return {
        "about": f"The prompt {prompt.name} of {program.method}. {how}",
        "program": program.fingerprint,
        **({"note": program.note} if program.note else {}),
        "model": program.model(prompt),
        "parameters": prompt.parameters(),
        "input_schema": prompt.input_schema,
        "output_schema": dict(prompt.output_schema),
        "reply": reading(prompt),
    }


def refuse_inputs(prompt: CompiledPrompt, taken: Collection[str], consumer: str) -> None:
    """Raise NotExpressible when an input of `prompt` is called what `consumer` keeps for itself (`taken`)."""
    for one in prompt.inputs:
        if one.name in taken:
            what = f"The prompt {prompt.name!r}"
            raise NotExpressible(
                what, f"{consumer} has a use of its own for {one.name!r}, the name of an input", CAN
            )
