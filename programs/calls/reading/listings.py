"""Outputs in tables and in lists of lines: records with labels, or two values a line.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.field_values import resolved
from ragc.programs.calls.reading.json_objects import Tally
from ragc.programs.calls.reading.labels import label_reader
from ragc.programs.calls.reading.meaning import (
    BULLET,
    NO_MEANING,
    choose,
    fold,
    is_text,
    number_in,
    numbers_in,
    python_value,
)
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.parsed import ParsedReply, has_brace, unfenced

_RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")
_RANKS = frozenset({"rank", "ranking", "place", "position", "order", "no", "#", ""})


_NAMED_CALL = re.compile(r"\W{0,10}[A-Za-z_]\w{0,60}\(\s*\w+\s*=.*\)\W{0,10}", re.DOTALL)


def parse_call(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs as the named arguments of a call: `Reply(answer="Paris")`."""
    call = unfenced(text.strip()).strip()
    if len(call) > 20_000 or not _NAMED_CALL.fullmatch(call):
        return None
    arguments = python_value(call)
    own = isinstance(arguments, dict) and arguments.keys() & schema["properties"].keys()
    return ParsedReply(arguments) if own else None


def parse_table(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs in a table of markdown: one in each row, or the items of a list."""
    rows = _rows(text)
    if len(rows) < 2:
        return None
    head, *body = rows
    spelled = {fold(name): name for name in schema["properties"]}
    if len(head) == 2 and any(fold(row[0]) in spelled for row in body):
        if all(fold(row[0]) in spelled for row in body):
            return ParsedReply({spelled[fold(row[0])]: row[1] for row in body})
        return None
    listed = _list_of(schema)
    if listed is None:
        one = len(body) == 1 and {fold(cell) for cell in head} & set(spelled)
        if not one:
            return None
        cells = dict(zip(map(fold, head), body[0], strict=False))
        return ParsedReply({spelled[head]: held for head, held in cells.items() if head in spelled})
    name, kind = listed
    fields = {fold(field): field for field in kind.get("properties", {})}
    if fields:
        columns = [fields.get(fold(cell), "") for cell in head]
        if not any(columns):
            return None
        return ParsedReply(
            {name: [{c: held for c, held in zip(columns, row, strict=False) if c} for row in body]}
        )
    wanted = [at for at, cell in enumerate(head) if cell.strip(" #").casefold() not in _RANKS]
    if kind.get("type") != "integer" or len(wanted) != 1:
        return None
    numbers = [numbers_in(row[wanted[0]]) for row in body]
    return ParsedReply({name: [one[0] for one in numbers]}) if all(len(one) == 1 for one in numbers) else None


def _rows(text: str) -> list[list[str]]:
    """The cells of the one table in `text` by rows, its head first, without the rule below the head."""
    lines = [line.strip() for line in text.splitlines() if "|" in line]
    if len(lines) < 3 or not _RULE.fullmatch(lines[1]):
        return []
    rows = [
        [cell.strip().strip("*`").strip() for cell in re.sub(r"\A\||\|\Z", "", line).split("|")]
        for line in lines
    ]
    return [rows[0], *rows[2:]] if all(len(row) == len(rows[0]) for row in rows) else []


def _list_of(schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The one output that is a list, or an object that holds but one, and the kind of its items."""
    mender = Mender(schema.get("$defs", {}), Tally())
    required = schema.get("required", list(schema["properties"]))
    names = [name for name in schema["properties"] if name in required or len(schema["properties"]) == 1]
    if len(names) != 1:
        return None
    kind = mender.resolve(schema["properties"][names[0]])
    inner = list(kind.get("properties", {}).values())
    kind = mender.resolve(inner[0]) if len(inner) == 1 else kind
    return (names[0], mender.resolve(kind.get("items") or {})) if kind.get("type") == "array" else None


_FIELD_LABEL = re.compile(
    r"\s*(?:\d{1,2}[.)]\s*)?[-*+\u2022\s]*[*_]{0,2}([^\W\d][\w -]{0,40}?)"
    r"[*_]{0,2}\s?[:\uff1a][*_]{0,2}\s*(.*)"
)


LONGEST_LINE = 1_000
"""Characters of a line in which a label or a pair is looked for: this takes time with their square."""


def parse_records(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """The items of a list as groups of labelled lines, or one in each line, as in "Messi (soccer player)"."""
    listed = _list_of(schema)
    if listed is None or has_brace(text) or not listed[1].get("properties"):
        return None
    name, kind = listed
    name_of = label_reader({"properties": kind["properties"]})
    inner = Mender(schema.get("$defs", {}), Tally()).resolve(schema["properties"][name]).get("properties", {})
    items: list[dict[str, str]] = []
    first = resolved(schema, next(iter(kind["properties"].values())))
    for line in text.splitlines():
        label = _FIELD_LABEL.fullmatch(line.strip()[:LONGEST_LINE])
        field = name_of(label[1]) if label else None
        heads = label is not None and not label[2] and fold(label[1]) in (fold(name), *map(fold, inner))
        if (
            (label is None or field not in kind["properties"])
            and _NUMBERED_LINE.match(line)
            and is_text(first)
        ):
            items.append({next(iter(kind["properties"])): _NUMBERED_LINE.sub("", line).strip('*`" ')})
            continue
        if label is None or field not in kind["properties"] or heads:
            continue
        if re.search(r"\d\s*\Z", label[1]) and not is_text(kind["properties"][field]):
            continue
        if not items or field in items[-1]:
            items.append({})
        items[-1][str(field)] = label[2].strip().strip('*`"')
    numbered = bool(items) and not any(len(item) > 1 for item in items) and len(kind["properties"]) > 1
    if items and not numbered and all(next(iter(kind["properties"])) in item for item in items):
        return ParsedReply({name: items})
    pairs = _piped(schema, kind, text) or pairs_in(schema, kind, text)
    if not pairs and not kind.get("required"):
        pairs = _sentences(text)
    return ParsedReply({name: pairs}) if pairs else None


def _piped(schema: Mapping[str, Any], kind: Mapping[str, Any], text: str) -> list[dict[str, str]]:
    """The items of lines that have all fields with bars between them; none where a line is another."""
    lines = [BULLET.sub("", line.strip()).strip("| ") for line in text.splitlines() if line.strip()]
    cells = [[cell.strip().strip('*`"') for cell in line.split("|")] for line in lines]
    fields = list(kind["properties"])
    if len(fields) < 2 or any(len(row) != len(fields) or not row[0] for row in cells):
        return []
    mender = Mender(schema.get("$defs", {}), Tally())
    items = [dict(zip(fields, row, strict=False)) for row in cells]
    return items if all(mender.fits(kind, mender.mend(kind, item)) for item in items) else []


def _sentences(text: str) -> list[Any]:
    """The items of a list that are said in a line each: sentences with bullets, or questions."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    asks = all(line.endswith("?") for line in lines)
    if not lines or not (asks or (len(lines) > 1 and all(BULLET.match(line) for line in lines))):
        return []
    return [BULLET.sub("", line).strip('*`"') for line in lines]


_NUMBERED_LINE = re.compile(r"\A[*_]{0,2}\d{1,2}[.)][*_]{0,2}\s+(?=\S)")
_BETWEEN = re.compile(r"\s*(?:->|=>|\u2192|\u27a1|:|\u2013|\u2014|\s-\s|=|\|)\s*")


_BESIDE_FIELD = re.compile(r"\s?[(\[](\w{1,40})\s?[:=]\s?([\w -]{1,40})[)\]]\W{0,3}\Z")


def pairs_in(schema: Mapping[str, Any], kind: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """The items in lines of a text and an option or a number; none where a line is another."""
    mender = Mender(schema.get("$defs", {}), Tally())
    kinds = {name: mender.resolve(inner) for name, inner in kind["properties"].items()}
    words = [name for name, inner in kinds.items() if is_text(inner)]
    marks = [name for name, inner in kinds.items() if "enum" in inner or inner.get("type") == "integer"]
    if len(words) != 1 or len(marks) != 1:
        return []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(len(line) > LONGEST_LINE for line in lines):
        return []
    items = []
    for line in lines:
        beside = _BESIDE_FIELD.search(line)
        own = beside is not None and beside[1] in kinds
        item = _pair(words[0], marks[0], kinds[marks[0]], line[: beside.start()] if beside and own else line)
        items.append({**item, beside[1]: beside[2]} if item and beside and own else item)
    return [item for item in items if item] if all(items) else []


def _pair(word: str, mark: str, kind: Mapping[str, Any], line: str) -> dict[str, Any]:
    if "enum" not in kind:
        return _numbered(word, mark, line)
    parts: Sequence[str] = _BETWEEN.split(BULLET.sub("", line), maxsplit=1)
    if len(parts) != 2:
        inside = re.fullmatch(r"(.+?)\s*[(\[]([^()\[\]]+)[)\]]\W*", BULLET.sub("", line))
        parts = (inside[1], inside[2]) if inside else ()
    if len(parts) != 2 or not all(parts):
        return {}
    for text, option in (parts, (parts[1], parts[0])):
        if choose(option, kind["enum"]) is not NO_MEANING:
            return {word: text.strip('*`" '), mark: choose(option, kind["enum"])}
    return {}


def _numbered(word: str, mark: str, line: str) -> dict[str, Any]:
    """The number and the text of a line such as "2. was first seen by", "Part 3 (Triton) -> Triton"."""
    if line.count("%") > 1:
        return {}
    parts = _BETWEEN.split(BULLET.sub("", line), maxsplit=1)
    inside = re.fullmatch(r"(.+?)\s*\((\d{1,3}\s*%?)\)\W*", line)
    parts = [inside[1], inside[2]] if inside and len(parts) == 1 else parts
    if (
        len(parts) == 2
        and number_in(parts[1], 100) is not None
        and number_in(parts[0]) != number_in(parts[1])
    ):
        return {word: BULLET.sub("", parts[0]).strip('*`" '), mark: number_in(parts[1], 100)}
    numbers = re.findall(r"\d{1,3}", parts[0]) if len(parts) == 2 else []
    if not numbers:
        first = re.match(r"\W*(\d{1,2})[.):]\s+", line)
        numbers = [first[1]] if first else []
    text = parts[-1].strip('*`" ')
    return {mark: int(numbers[0]), word: text} if len(numbers) == 1 and text else {}
