"""Texts of outputs without labels and objects that only say once more which output they are.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragc.programs.calls.reading.field_values import resolved
from ragc.programs.calls.reading.labels import parse_labels, without_remark
from ragc.programs.calls.reading.listings import parse_records
from ragc.programs.calls.reading.meaning import EMPTY, fold, is_text, loads
from ragc.programs.calls.reading.parsed import ParsedReply, ParseProblem, has_tag
from ragc.programs.calls.reading.prose import named_answer
from ragc.programs.calls.reading.refusals import ASIDES, is_unsettled
from ragc.programs.calls.reading.sole_texts import alone, without_beside
from ragc.programs.calls.reading.step_calls import call_in
from ragc.programs.calls.reading.steps import step_shape

_QUESTIONS = ("answer", "query", "question")
"""Last words of the names of outputs that say one thing, and must say it."""


_QUOTED_VALUE = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]+)[\"\u201d](?:,|\s*\([^()\n]*\)\.?)")
"""A text in quotes with a comma of JSON or a remark in brackets after it."""
_KINDS = frozenset(("search", "final", "short", "new", "better", "rewritten", "improved", "next", "web"))
"""Words before the name of an output in a label that is its own."""


def clean_texts(schema: Mapping[str, Any], parsed: ParsedReply) -> ParsedReply:
    """`parsed` without labels and objects inside its texts that only say once more which output they are.

    Sentences around an answer are taken off where the reply was not written as its layout asks. Then an
    answer, a query or a question that is empty raises ParseProblem.
    """
    values = dict(parsed.values)
    for name, value in parsed.values.items():
        kind = resolved(schema, schema["properties"].get(name, {}))
        inner = name not in schema["properties"]
        if not isinstance(value, str) or not ((inner and name in ASIDES) or is_text(kind)):
            values[name] = _structured(schema, name, kind, value) if isinstance(value, str) else value
            continue
        if not parsed.exact and "[[ ##" in value and name not in ASIDES:
            raise ParseProblem(f"{name} holds a marker")
        if name in ASIDES and not parsed.exact and value.strip("*_. ").casefold() in EMPTY:
            values[name] = ""
            continue
        last = name.rpartition("_")[2]
        text = _without_own_name(schema, name, value)
        if isinstance(text, str) and last in _QUESTIONS:
            text = without_beside(last, text)
        if not parsed.exact and last in ("input", "passage") and not text:
            raise ParseProblem(f"{name} is empty")
        if isinstance(text, str) and not parsed.exact and name not in ASIDES:
            text = alone(name, text)
            if has_tag(schema, text):
                raise ParseProblem(f"{name} holds a tag")
        if isinstance(text, str) and not parsed.exact and name.rpartition("_")[2] in _QUESTIONS:
            text = without_remark(_without_sentence(name, text))
            quoted = _QUOTED_VALUE.fullmatch(text)
            text = quoted[1] if quoted else text
            if not text:
                raise ParseProblem(f"{name} is empty")
            if name.rpartition("_")[2] == "answer" and is_unsettled(text):
                raise ParseProblem(f"{name} is not settled")
        values[name] = text
    return ParsedReply(values, exact=parsed.exact and values == parsed.values)


def _structured(schema: Mapping[str, Any], name: str, kind: Mapping[str, Any], value: str) -> Any:
    """The list or object that lines of `value` spell; `value` where they spell none."""
    kinds = [resolved(schema, one) for one in kind.get("anyOf", [kind])]
    if not all(one.get("type") in ("array", "object") for one in kinds) or value.lstrip()[:1] in ("{", "["):
        return value
    alone = {**schema, "properties": {name: schema["properties"][name]}, "required": [name]}
    records = parse_records(alone, value)
    if records is not None:
        return records.values[name]
    inner = {field: held for one in kinds for field, held in one.get("properties", {}).items()}
    labelled = (
        parse_labels({**schema, "properties": inner, "required": []}, value) if len(inner) > 1 else None
    )
    return dict(labelled.values) if labelled is not None and len(labelled.values) > 1 else value


def _without_own_name(schema: Mapping[str, Any], name: str, value: str) -> Any:
    """What `value` holds after the `name` of the output or its option of a step, or in an object."""
    if value[:1] == "{":
        held = loads(value)
        own = isinstance(held, dict) and len(held) == 1 and fold(next(iter(held))) == fold(name)
        return next(iter(held.values())) if own else value
    label, mark, rest = value.partition(":")
    words = label.casefold().split()
    own = fold(label) == fold(name) or (
        len(words) == 2 and words[-1] == name.rpartition("_")[2] and words[0] in _KINDS
    )
    if mark and len(label) < 60 and own and rest.strip():
        return rest.strip(" *_\n")
    shape = step_shape(schema)
    call = call_in(value, shape.options) if shape is not None and name == shape.text and mark else None
    return call[1] if call else value


def _without_sentence(name: str, text: str) -> str:
    """The answer in a line such as "The answer is Paris."; `text` where it is no such line."""
    if name.rpartition("_")[2] != "answer" or "\n" in text:
        return text
    named, at = named_answer(text)
    if not named or at != 0 or not text.rstrip(" .*!").endswith(named):
        return text
    return named if re.search(r"\b(?:is|was|are|be)\b", text[: text.find(named)], re.IGNORECASE) else text
