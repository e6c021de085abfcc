"""What an export tells of its prompt so that it can be read back: the parts that its messages are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.exports.prompt import CompiledPrompt
from ragc.fingerprint import digest

KEY = "source"


def source(prompt: CompiledPrompt, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parts of `prompt`, and a digest of the `messages` as written: it tells whether they still hold."""
    return {
        "layout": prompt.layout,
        "instructions": prompt.instructions,
        "demonstrations": [dict(demo) for demo in prompt.demonstrations],
        "outputs": {one.name: one.about for one in prompt.outputs},
        "messages": digest(list(messages)),
    }


def intact(told: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the `messages` of a file are those that its source was written for."""
    source = told.get(KEY)
    return isinstance(source, dict) and source.get("messages") == digest(list(messages))
