"""JSON objects in texts: cut short, several of them, or the form that was asked for, not filled in.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ragc.programs.calls.reading.meaning import loads
from ragc.programs.calls.reading.parsed import ParseProblem


class Tally:
    """How many values of a reply were `mended`, and how many items of its lists `dropped`."""

    def __init__(self, mended: int = 0) -> None:
        self.mended = mended
        self.dropped = 0


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?\Z|[{}\[\],]', re.DOTALL)


def close_list(text: str, tally: Tally) -> str:
    """JSON that was cut inside a list, without the unfinished item and with its brackets closed.

    Other texts stay as they are.
    """
    opened: list[tuple[str, int]] = []
    for token in _JSON_TOKEN.finditer(text):
        mark = token[0]
        if mark in "[{":
            opened.append((mark, token.end()))
        elif mark in "]}":
            if not opened or opened.pop()[0] != {"]": "[", "}": "{"}[mark]:
                return text
        elif mark == "," and opened and opened[-1][0] == "[":
            opened[-1] = ("[", token.start())
    places = [at for at, (mark, _) in enumerate(opened) if mark == "["]
    if not places:
        return text
    last = places[-1]
    start = opened[last][1]
    rest = text[start:].lstrip(",").strip()
    if last + 1 == len(opened) and (rest[-1:] in ("}", "]") or (loads(rest) is not None and rest[:1] == '"')):
        start = len(text.rstrip())
    elif rest:
        tally.dropped += 1
    closers = "".join("]" if mark == "[" else "}" for mark, _ in reversed(opened[: last + 1]))
    return text[:start] + closers


def is_cut(text: str) -> bool:
    """Whether the JSON `text` ends within a text, or where a value should begin."""
    tokens = list(_JSON_TOKEN.finditer(text))
    inside = bool(tokens) and tokens[-1][0][0] == '"' and tokens[-1].end() == len(text)
    if not inside or loads(tokens[-1][0]) is not None:
        return text.rstrip().endswith(":")
    before = text[: tokens[-1].start()].rstrip()[-1:]
    return not (before == "{" or (before == "," and _innermost(tokens) == "{"))  # a name that is cut


def _innermost(tokens: Sequence[re.Match[str]]) -> str:
    """The bracket that `tokens` leave open last; "" where none is open."""
    opened: list[str] = []
    for token in tokens:
        if token[0] in ("{", "["):
            opened.append(token[0])
        elif token[0] in ("}", "]") and opened:
            opened.pop()
    return opened[-1] if opened else ""


def whole_part(text: str, tally: Tally, *, truncated: bool) -> str:
    """The JSON `text` without the item of a list that it was cut in, where it was `truncated` or looks so.

    Raises ParseProblem for a text that ends within another value, unless it was `truncated`.
    """
    start = text[text.find("{") :]
    cut = is_cut(start)
    if not truncated and not cut:
        return text
    closed = close_list(start, tally)
    if not truncated and closed == start and not text.rstrip().endswith("}"):
        raise ParseProblem("it is cut short")
    return closed


def objects_in(text: str) -> list[tuple[Any, int, int]]:
    """The JSON objects in `text` that are whole and stand in no other, each with where it begins and ends."""
    objects: list[tuple[Any, int, int]] = []
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0 and len(objects) < 50:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        objects.append((value, at, end))
        at = text.find("{", end)
    return objects


_ALTERNATIVES = re.compile(r"[\"\w\s]\s*\|\s*[\"\w]")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def offers_choice(text: str) -> bool:
    """Whether `text` is the form that was asked for, not filled in: `"yes" | "no"`."""
    start = text.find("{")
    inside = _STRING.sub('""', text[start : text.rfind("}") + 1]) if start >= 0 and "|" in text else ""
    return _ALTERNATIVES.search(inside) is not None


def places_in(value: Any, where: Sequence[Any]) -> Iterator[tuple[list[Any], int]]:
    """The lists in `value` on the way `where`, names and places from the outside in, each with the place."""
    for step in where:
        if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            yield value, step
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
