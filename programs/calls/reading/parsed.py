"""Parsers of replies that are not one JSON object: what they return and what they raise.

A parser returns what stands for each output, by name, and None where it does not apply.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ragc.programs.calls.reading.meaning import fold


class ParsedReply:
    """What stands for each output by name, and whether it was written as its layout asks."""

    def __init__(self, values: Mapping[str, Any], *, exact: bool = False) -> None:
        self.values, self.exact = values, exact


Parser = Callable[[Mapping[str, Any], str], "ParsedReply | None"]


class ParseProblem(ValueError):
    """A reply that says two things of one output, or nothing where something must be said."""


def folded_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """The names of the outputs by their spelling without case, blanks and marks."""
    return {fold(name): name for name in schema["properties"]}


def split_header(line: str, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    """The name in the header at the beginning of `line`, and what follows it; None where there is none."""
    stripped = line.strip()
    header = pattern.match(stripped)
    if header is None:
        return None
    rest = stripped[header.end() :].strip()
    return header[1], rest[1:].strip() if rest[:1] == ":" else rest


def has_brace(text: str) -> bool:
    """Whether a JSON object, or what should be one, stands in `text`."""
    return "{" in text


def has_tag(schema: Mapping[str, Any], text: str) -> bool:
    """Whether a tag or a marker of an output stands in `text`."""
    return "<" in text and any(f"<{name}>" in text or f"</{name}>" in text for name in schema["properties"])


_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def unfenced(text: str) -> str:
    """`text` without the code fence that is all around it."""
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text
