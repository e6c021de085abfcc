"""The last resort for a call that does not fit the context of its target: cutting its longest input.

Programs leave out whole passages and steps before this; what is left may still be too long, such as a
question of a hundred pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ragc.core import counters
from ragc.errors import PromptTooLong
from ragc.programs.trace import Note, record

if TYPE_CHECKING:
    from ragc.programs.calls.prompt import TypedPrompt
    from ragc.targets.base import Message

_MIN_CHARS = 40
"""Characters below which a text is not cut."""


def cut_to_fit(call: TypedPrompt, inputs: dict[str, Any]) -> tuple[dict[str, Any], tuple[Message, ...]]:
    """Cuts the longest text of `inputs`, or of a list in it, at its end until `call` fits its context.

    Returns the inputs and the messages that show them. A cut is noted in the trace and counted as trimmed.
    Raises PromptTooLong when the prompt is too long without its inputs.
    """
    target = call.target
    limit = target.context_tokens
    cut = {name: list(value) if isinstance(value, list | tuple) else value for name, value in inputs.items()}
    while (size := call.size(**cut)) > limit:
        holder, key, text = max(_texts(cut), key=lambda entry: len(entry[2]), default=(cut, "", ""))
        if len(text) <= _MIN_CHARS:
            raise PromptTooLong(
                f"A prompt of the call {call.name or 'without a name'!r} takes {size} tokens with its reply, "
                f"and the context of {target.name} holds {limit}; show fewer demonstrations (knob icl_n), or "
                "use a target with a larger context."
            )
        tokens = max(1, target.count_tokens(text))
        length = int(len(text) * (1 - (size - limit) / tokens)) - 8
        holder[key] = text[: max(_MIN_CHARS, min(length, len(text) - 1))]
    if cut != inputs:
        counters.count(trimmed=1)
        record(Note(call.name, "its longest input was cut to fit the context"))
    return cut, call.messages(**cut)


def _texts(inputs: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    """Yields each text of `inputs`: what holds it, `inputs` or a list there, its key, and the text."""
    for name, value in inputs.items():
        if isinstance(value, str):
            yield inputs, name, value
        elif isinstance(value, list):
            yield from ((value, place, item) for place, item in enumerate(value) if isinstance(item, str))
