"""Code of the `python` export: reading replies with markers. It stands in the generated file as it is.

Nothing but the standard library of Python 3.9 may be used here. What DSPy's chat adapter reads is read alike,
or asked for again where that mends a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ragc.exports.formats.python.runtime.json_replies import _LIMITS, ReplyError, _coerce, _plain, _Unfit

_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")


def _read_markers(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The outputs of a reply in which a line that begins with `[[ ## name ## ]]` begins each value."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        header = _HEADER.match(line.strip())
        if header:
            rest = line[header.end() :].strip()
            lines = [rest] if rest else []
            sections.setdefault(header[1], lines)
        else:
            lines.append(line)
    return _read_outputs(
        schema, {name: "\n".join(section).strip() for name, section in sections.items()}, "chat"
    )


def _read_outputs(schema: Mapping[str, Any], values: Mapping[str, Any], layout: str) -> dict[str, Any]:
    """The outputs among the values that were `values` by name; raises ReplyError when one is none."""
    try:
        return {
            name: _read_output(kind, values[name], schema.get("$defs", {}))
            for name, kind in schema["properties"].items()
        }
    except (_Unfit, KeyError):
        raise ReplyError(f"the {layout} layout found no {', '.join(schema['properties'])}.") from None


def _read_output(schema: Mapping[str, Any], value: Any, named: Mapping[str, Any]) -> Any:
    """An output from its text, or from what its tags hold; bounds of the output itself are not checked."""
    if _plain(schema):
        return str(value)
    if isinstance(value, str) and schema.get("type") != "string" and not value.isalpha():
        try:
            value = json.loads(value)
        except ValueError:
            raise _Unfit((), "Input should be JSON") from None
    return _coerce(
        {key: constraint for key, constraint in schema.items() if key not in _BOUNDS}, value, named, ()
    )


_BOUNDS = {*_LIMITS, "minItems", "maxItems"}
