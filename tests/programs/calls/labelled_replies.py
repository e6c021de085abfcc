"""Labelled replies of language models in tests/recorded/replies, whose README.md says how they were written.

What becomes of a reply:

    right    readable, and read with the values that a person reads
    refused  readable, and not read: the program asks again, which costs a call
    wrong    read with other values, or read though a person could not: nobody notices
    kept off not readable, and not read
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspy.adapters.utils import serialize_for_json

from ragc.errors import ParseFailure
from ragc.programs.calls.parsing import parse
from tests.paths import ROOT

FOLDER = ROOT / "tests/recorded/replies"


def signature_of(row: Mapping[str, Any]) -> Any:
    """The signature that `row` names, or the variant of it that its expression derives."""
    module, _, name = row["signature"].partition(":")
    names = vars(importlib.import_module(module))
    # The expressions stand in files of this folder, with the names of the module and nothing else.
    return eval(row["variant"], {"__builtins__": {}, **names}) if row.get("variant") else names[name]


def read(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The outputs that are read from the reply of `row`, as JSON values; None where it cannot be read."""
    signature, text, layout = signature_of(row), row["reply"], row["layout"]
    truncated = bool(row.get("truncated"))
    try:
        reading = parse(signature, text, layout=layout, finish="length" if truncated else "stop")
    except ParseFailure:
        return None
    return {name: serialize_for_json(value) for name, value in reading.outputs.items()}


def outcome(row: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> str:
    """What becomes of the reply of `row`, read as `outputs`."""
    if outputs is None:
        return "refused" if row["readable"] else "kept off"
    also = row.get("also") or {}
    if not row["readable"]:
        harmless = also and all(any(same(outputs[name], one) for one in also[name]) for name in also)
        return "kept off" if harmless else "wrong"
    value_read = ((name, outputs.get(name), value) for name, value in row["values"].items())
    for name, value, wanted in value_read:
        if not any(same(value, one) for one in (wanted, *also.get(name, ()))):
            return "wrong"
    return "right"


def same(value_read: Any, wanted: Any) -> bool:
    """Whether both say the same; case, blanks, markup, outer quotes and a last full stop do not count."""
    if wanted is None:
        return True
    if isinstance(wanted, str) and isinstance(value_read, str):
        return _plain(value_read) == _plain(wanted)
    if isinstance(wanted, list) and isinstance(value_read, list):
        return len(value_read) == len(wanted) and all(map(same, value_read, wanted))
    if isinstance(wanted, dict) and isinstance(value_read, dict):
        return all(same(value_read.get(name), value) for name, value in wanted.items())
    return type(value_read) is type(wanted) and bool(value_read == wanted)


_OUTER = " .\"'`*_\u201c\u201d\u2018\u2019"


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*`_]", "", text).split()).strip(_OUTER).casefold()


def rows_of(file: str | Path) -> list[dict[str, Any]]:
    """The replies in `file`, a name in the folder of labelled replies or a path."""
    path = file if isinstance(file, Path) else FOLDER / file
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
