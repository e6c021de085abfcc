"""What stays the same between calls of one predictor: the messages before the last one, and their marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.fingerprint import digest
from ragc.programs.demos import plain
from ragc.programs.layouts import adapter
from ragc.programs.typed import reply_schema
from ragc.targets.base import Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """Instructions and demonstrations as messages.

    `fingerprint` is a digest of all that shapes the prompt apart from the inputs, `wording` tells what is
    said of the inputs beside their names and types, `echoes` are the inputs that repeat another with that
    other, `outputs` the output fields and `fields` how they are read, `of` the layout and the most
    demonstrations shown.
    """

    prefix: tuple[Message, ...]
    fingerprint: str
    wording: str
    echoes: tuple[tuple[str, str], ...]
    outputs: Mapping[str, Any]
    fields: tuple[Any, ...]
    of: tuple[str, int]


def render(signature: Any, demos: Sequence[Any], layout: str, max_demos: int) -> Rendered:
    """The messages of `signature` and the first `max_demos` of `demos` in `layout`."""
    style = adapter(layout)
    extras = [(name, info.json_schema_extra or {}) for name, info in signature.input_fields.items()]
    echoes = tuple((name, extra["echo"]) for name, extra in extras if extra.get("echo"))
    shown = [echoed(plain(demo), echoes) for demo in demos[:max_demos]]
    messages = [{"role": "system", "content": style.format_system_message(signature)}]
    messages += style.format_demos(signature, shown)
    prefix = tuple(Message(m["role"], m["content"]) for m in messages)
    fields = [[name, str(info.annotation)] for name, info in signature.fields.items()]
    mark = digest([[list(m) for m in prefix], reply_schema(signature), fields, layout])
    outputs = signature.output_fields
    read = tuple((name, info.annotation, *info.metadata) for name, info in outputs.items())
    return Rendered(prefix, mark, repr(extras), echoes, outputs, read, (layout, max_demos))


def echoed(values: Mapping[str, Any], echoes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """`values` with every input that repeats another filled in."""
    return {**values, **{name: values[of] for name, of in echoes if of in values}}
