"""Extracts demonstrations from message pairs: the last message's template locates the inputs in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.prompts.model import Input, Output, Part, Slot


def inputs_in(text: str, parts: Sequence[Part], inputs: Mapping[str, Input]) -> dict[str, Any] | None:
    """Returns the input values for which the template `parts` renders `text` (ignoring outer white space);
    else None.

    A value ends at the first occurrence of the fixed text after it.
    """
    values: dict[str, Any] = {}
    at, text = 0, text.strip()
    trimmed = _trim(parts)
    for index, part in enumerate(trimmed):
        after = trimmed[index + 1] if index + 1 < len(trimmed) else None
        if isinstance(part, str):
            if not text.startswith(part, at):
                return None
            at += len(part)
            continue
        end = _end(text, at, after, last=index + 2 == len(trimmed))
        if end < 0 or isinstance(after, Slot):
            return None
        value = _value(text[at:end], part, inputs[part.name])
        if value is None or values.setdefault(part.name, value) != value:
            return None
        at = end
    return values if at == len(text) else None


def _trim(parts: Sequence[Part]) -> list[Part]:
    """Returns `parts` without outer white space."""
    trimmed = list(parts)
    if trimmed and isinstance(trimmed[0], str):
        trimmed[0] = trimmed[0].lstrip()
    if trimmed and isinstance(trimmed[-1], str):
        trimmed[-1] = trimmed[-1].rstrip()
    return [part for part in trimmed if part != ""]


def _end(text: str, at: int, after: Part | None, *, last: bool) -> int:
    if not isinstance(after, str):
        return len(text)
    if last:
        return len(text) - len(after) if text.endswith(after) and len(text) - len(after) >= at else -1
    return text.find(after, at)


def _value(text: str, slot: Slot, one: Input) -> Any:
    """Returns the value that the style of `slot` renders as `text`; None without one."""
    if slot.style == "lines":
        return _items(text)
    if slot.style == "json":
        return _json(text, list)
    if one.kind == "flag":
        return {slot.words[0]: True, slot.words[1]: False}.get(text)
    return text if one.kind == "text" else _json(text, int | float)


def _json(text: str, kind: Any) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _items(text: str) -> list[str]:
    """Returns the items of a numbered list; a text without numbers is one item."""
    if text in ("none", ""):
        return []
    items: list[str] = []
    for number, line in enumerate(text.split("\n[")):
        head = re.match(r"\[?(\d+)\] ", line)
        if head and int(head[1]) == len(items) + 1:
            items.append(line[head.end() :])
        elif items:
            items[-1] += f"\n[{line}"
        else:
            return [text] if number == 0 else items
    return items


def outputs_of(replies: Sequence[str]) -> tuple[Output, ...]:
    """Returns the outputs of hand-written replies: the fields of JSON objects, else one text `answer`."""
    read = [_json(text, dict) for text in replies]
    keys = [tuple(value) for value in read if value]
    if not replies or len(keys) < len(replies) or any(key != keys[0] for key in keys):
        return (Output("answer", {"type": "string"}),)
    schemas = {name: [_schema(value[name]) for value in read] for name in keys[0]}
    good = all(name.isidentifier() for name in schemas)
    return (
        tuple(
            Output(name, kinds[0] if all(k == kinds[0] for k in kinds) else {"type": "string"})
            for name, kinds in schemas.items()
        )
        if good
        else (Output("answer", {"type": "string"}),)
    )


def _schema(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"type": "array", "items": _schema(value[0]) if value else {"type": "string"}}
    names = {bool: "boolean", int: "integer", float: "number"}
    return {"type": names.get(type(value), "string")}


def outputs_in(text: str, outputs: Sequence[Output]) -> dict[str, Any] | None:
    """Returns the outputs in a demonstrated reply, None without any; a single text needs no field name."""
    names = [one.name for one in outputs]
    read = _json(text, dict)
    if isinstance(read, dict) and read and read.keys() <= set(names):
        return read
    if len(outputs) == 1 and outputs[0].schema.get("type") == "string":
        return {names[0]: text}
    return None
