"""Texts of outputs without labels and objects that only say once more which output they are.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragc.programs.calls.reading.field_values import resolved
from ragc.programs.calls.reading.labels import without_remark
from ragc.programs.calls.reading.meaning import fold, is_text, loads
from ragc.programs.calls.reading.parsed import ParsedReply, ParseProblem
from ragc.programs.calls.reading.prose import named_answer
from ragc.programs.calls.reading.step_calls import call_in
from ragc.programs.calls.reading.steps import step_shape


def clean_texts(schema: Mapping[str, Any], parsed: ParsedReply) -> ParsedReply:
    """`parsed` without labels and objects inside its texts that only say once more which output they are.

    What was written as its layout asks stays as it is. Raises ParseProblem where an answer, a query or a
    question is empty.
    """
    if parsed.exact:
        return parsed
    shape = step_shape(schema)
    values = dict(parsed.values)
    for name, matches in parsed.values.items():
        value = matches
        if not isinstance(value, str) or not is_text(resolved(schema, schema["properties"].get(name, {}))):
            continue
        label, mark, rest = value.partition(":") if value[:1] != "{" else (value, "", "")
        if mark and len(label) < 60 and fold(label) == fold(name) and rest.strip():
            value = rest.strip(" *_\n")
        elif shape is not None and name == shape.text and mark and (call := call_in(value, shape.options)):
            value = call[1]
        one_line = name.rpartition("_")[2] == "answer" and "\n" not in value
        named, at = named_answer(value) if one_line else ("", 1)
        spoken = (
            re.search(r"\b(?:is|was|are|be)\b", value[: value.find(named)], re.IGNORECASE)
            if named and at == 0
            else None
        )
        if spoken and value.rstrip(" .*!").endswith(named):
            value = named
        if name.rpartition("_")[2] in ("answer", "query", "question"):
            value = without_remark(value)
        held = loads(value) if value[:1] == "{" else None
        if isinstance(held, dict) and len(held) == 1 and fold(next(iter(held))) == fold(name):
            value = next(iter(held.values()))
        if value == "" and name.rpartition("_")[2] in ("answer", "query", "question"):
            raise ParseProblem(f"{name} is empty")
        values[name] = value
    return ParsedReply(values)
