"""Splits a system message of a layout into instructions and descriptions of fields.

The inverse of a layout of `ragc.programs.calls.layouts`. A line that no layout writes belongs to the text
above it, so that an added text is sent where its author put it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.programs.calls.layouts import INPUTS, OUTPUTS

OBJECTIVE = "In adhering to this structure, your objective is:"
_FIELDS, _REPLY_FIELDS = "Your input fields are:", "Your output fields are:"
_STRUCTURE = "All interactions will be structured in the following way"
_INDENT = " " * 8

Head = Callable[[str], tuple[str, str] | None]
"""The name of a field whose line this is, and its description; None for another line."""


@dataclass(frozen=True, slots=True)
class SystemText:
    """The instructions in a system message, the descriptions by field, and the text above both."""

    instructions: str
    descriptions: Mapping[str, str]
    preface: str = ""


def detect_layout(system: str) -> str:
    """Returns the layout that wrote the message `system`; "" for none."""
    if OBJECTIVE in system and _REPLY_FIELDS in system:
        if "Outputs will be a JSON object with the following fields." in system:
            return "json"
        return "chat" if "[[ ## " in system else "xml"
    lines = [line.strip() for line in system.split("\n")]
    return "minimal" if OUTPUTS in lines and any(map(_REPLY_LINE.match, lines)) else ""


def reply_fields(system: str, layout: str) -> tuple[str, ...]:
    """Returns the names of the outputs that the message `system`, written in `layout`, lists."""
    if layout == "minimal":
        lines = system.rpartition(f"{OUTPUTS}\n")[2].split("\n")
        return tuple(match[1] for line in lines if (match := _REPLY_LINE.match(line)))
    listed = system.partition(_REPLY_FIELDS)[2].partition(_STRUCTURE)[0]
    return tuple(re.findall(r"(?m)^\d+\. `(\w+)`", listed))


def split_system(system: str, layout: str, signature: Any) -> SystemText:
    """Returns the parts of the message `system`, written in `layout` for the fields of `signature`."""
    return _split_minimal(system, signature) if layout == "minimal" else _split_framed(system, signature)


_REPLY_LINE = re.compile(r'- "(\w+)"(?: \(.*?\)(?=: |$))?(?:: ?(.*))?$')


def _split_minimal(system: str, signature: Any) -> SystemText:
    from ragc.programs.calls.layouts import shape

    shapes = {name: shape(info.annotation) for name, info in signature.output_fields.items()}
    labels = {name.replace("_", " ").capitalize(): name for name in signature.input_fields}

    def output(line: str) -> tuple[str, str] | None:
        match = _REPLY_LINE.match(line)
        if not match or match[1] not in shapes:
            return None
        whole = f'- "{match[1]}" ({shapes[match[1]]})'
        return match[1], line[len(whole) :].removeprefix(":").strip() if line.startswith(whole) else (
            match[2] or ""
        ).strip()

    def explained(line: str) -> tuple[str, str] | None:
        label, colon, about = line.removeprefix("- ").partition(":")
        known = line.startswith("- ") and colon and label in labels
        return (labels[label], about.strip()) if known else None

    lines = system.split("\n")
    end = _section(lines, OUTPUTS, output)
    descriptions = _read_fields(lines[end:], output)
    above = lines[: end - 1] if end and _is_heading(lines[end - 1]) else lines[:end]
    start = _heading(above, INPUTS, explained)
    if start is not None:
        descriptions |= _read_fields(above[start + 1 :], explained)
        above = above[:start]
    return SystemText("\n".join(above).strip(), descriptions)


def _is_heading(line: str) -> bool:
    return line.strip() == OUTPUTS or line.rstrip().endswith(":")


def _section(lines: Sequence[str], heading: str, head: Head) -> int:
    """Returns the first line of the fields below the last `heading`, or the first line of a field without
    one.
    """
    at = _heading(lines, heading, head)
    if at is not None:
        return at + 1
    return next((i for i, line in enumerate(lines) if head(line)), len(lines))


def _heading(lines: Sequence[str], heading: str, head: Head) -> int | None:
    """Returns the position of the last `heading` before the line of a field, or None."""
    places = [i for i, line in enumerate(lines) if line.strip() == heading]
    return next((i for i in reversed(places) if i + 1 < len(lines) and head(lines[i + 1])), None)


def _read_fields(lines: Sequence[str], head: Head) -> dict[str, str]:
    """Returns the descriptions of fields by name; a line of no field continues the one above it."""
    about: dict[str, list[str]] = {}
    last = ""
    for line in lines:
        field = head(line)
        if field is not None and field[0] not in about:
            last = field[0]
            about[last] = [field[1]]
        elif last:
            about[last].append(line)
    return {name: "\n".join(texts).rstrip() for name, texts in about.items()}


def _split_framed(system: str, signature: Any) -> SystemText:
    """Returns the parts of a message of DSPy's adapters."""
    body, _, objective = system.partition(OBJECTIVE)
    lines = body.split("\n")
    starts = [
        next((i for i, line in enumerate(lines) if line.strip().startswith(mark)), -1)
        for mark in (_FIELDS, _REPLY_FIELDS, _STRUCTURE)
    ]
    descriptions: dict[str, str] = {}
    preface: list[str] = []
    if min(starts) >= 0:
        inputs, outputs, structure = starts
        preface = lines[:inputs]
        descriptions = _read_fields(lines[inputs + 1 : outputs], _numbered(signature.input_fields))
        descriptions |= _read_fields(lines[outputs + 1 : structure], _numbered(signature.output_fields))
    instructions = [line.removeprefix(_INDENT).rstrip() for line in objective.split("\n")]
    return SystemText("\n".join(instructions).strip(), descriptions, "\n".join(preface).strip())


def _numbered(fields: Mapping[str, Any]) -> Head:
    from dspy.adapters.utils import get_annotation_name

    heads = {name: f"`{name}` ({get_annotation_name(info.annotation)})" for name, info in fields.items()}

    def head(line: str) -> tuple[str, str] | None:
        match = re.match(r"\d+\. (`(\w+)`.*)$", line)
        if not match or match[2] not in heads:
            return None
        whole = heads[match[2]]
        if match[1].startswith(whole):
            return match[2], match[1][len(whole) :].removeprefix(":").strip()
        return match[2], match[1].partition("): ")[2].strip()

    return head
