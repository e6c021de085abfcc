"""Outputs under markers: DSPy's layout `chat` asks for `[[ ## name ## ]]`, models write headings too.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ragc.programs.calls.reading.labels import label_reader
from ragc.programs.calls.reading.meaning import fold
from ragc.programs.calls.reading.parsed import ParsedReply, ParseProblem, folded_names, split_header
from ragc.programs.calls.reading.prose import is_retraction

_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_LOOSE_HEADER = re.compile(
    r"[*_`]{0,3}(?:\[{1,2}\s*#*|#+)\s*([^\W\d][\w -]{0,60}?)\s*((?:[\]#:*`]|_(?!\w))[\]#:*_`\s]*|$)"
)


_LABELLED_HEADING = re.compile(r"^[ \t]{0,3}#{1,6} [^\n:#]{1,60}:[ \t*_]{0,4}[^\s*_#]", re.MULTILINE)
"""A heading that is a label: "## Grade: 5"."""
_WITHIN_LINE = re.compile(r"[\w.,;:!?)\"'] ?\[\[ ## \w+ ## \]\]")


def parse_markers(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """All outputs, where each stands under a line that begins with `[[ ## name ## ]]`.

    Where the last is empty and the mark of the end is missing, the reply was cut: it is not exact.
    """
    sections = _sections(text, lambda line: split_header(line, _HEADER))[1]
    values = {name: sections[name] for name in schema["properties"] if name in sections}
    whole = len(values) == len(schema["properties"]) and not any(map(_HEADER.match, values.values()))
    if not whole:
        return None
    last = list(sections)[-1]
    return ParsedReply(values, exact=last not in values or values[last] != "")


def parse_loose_markers(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs under markers or headings in other spelling; what stands before them is the first output."""
    name_of, spelled = label_reader(schema), folded_names(schema)
    own = {*spelled, "completed"}
    if _WITHIN_LINE.search(text):
        text = _HEADER.sub(lambda mark: f"\n{mark[0]}\n" if fold(mark[1]) in own else mark[0], text)

    labelled = _LABELLED_HEADING.search(text) is not None

    def header(line: str) -> tuple[str, str] | None:
        exact = split_header(line, _HEADER)
        if exact is not None:
            return spelled.get(fold(exact[0]), exact[0]), exact[1]
        loose = split_header(line, _LOOSE_HEADER)
        if labelled and ":" in line and line.lstrip()[:1] == "#":
            return None
        if loose is not None and fold(loose[0]) in spelled:
            return spelled[fold(loose[0])], loose[1]
        if loose is not None and line.lstrip()[:1] == "#" and name_of(loose[0]) in schema["properties"]:
            return str(name_of(loose[0])), loose[1]
        return None

    before, sections = _sections(text, header)
    first = next(iter(schema["properties"]))
    if sections and first not in sections and before:
        sections = {first: before, **sections}
    values = {name: sections[name] for name in schema["properties"] if name in sections}
    return (
        ParsedReply(values) if any(values.values()) and not any(map(_HEADER.match, values.values())) else None
    )


def _sections(text: str, header: Callable[[str], tuple[str, str] | None]) -> tuple[str, dict[str, str]]:
    """What stands before the first header, and under each by name. Raises ParseProblem where two differ."""
    before: list[str] = []
    lines = before
    sections: dict[str, list[str]] = {}
    again: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        begun = header(line)
        if begun is None:
            lines.append(line)
            continue
        name, rest = begun
        lines = [rest] if rest else []
        if name not in sections:
            sections[name] = lines
        else:
            again.append((name, lines))
    held = {name: "\n".join(some).strip() for name, some in sections.items()}
    if len(sections) - ("completed" in sections) == 1:
        for name, some in again:
            other = "\n".join(some).strip()
            if name != "completed" and other and held[name] and fold(other) != fold(held[name]):
                if not is_retraction(held[name]):
                    raise ParseProblem(name)
                held[name] = other
    return "\n".join(before).strip(), held
