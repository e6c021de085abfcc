"""Reads a prompt's file into messages, before any template in them is parsed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ragc.core import inputs
from ragc.core.redact import shorten
from ragc.errors import DataError, UnknownName

FORMATS = ("jinja2", "openai-json")
"""The formats that can be imported."""

MOST_BYTES = 4 * 2**20
"""Maximum size of a file in bytes."""

DEEPEST = 64
"""Maximum nesting depth of arrays and objects in a file."""

_EXACT = 2**63
_TEXT = (".jinja", ".jinja2", ".j2")
_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_SLOT = r"\{\{\s*[A-Za-z_]\w*\s*\}\}"


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt's file: its messages as (role, content), its metadata, and its format.

    `raw` are the messages as they are in the file. `document` is the object that contains them, including the
    request of openai-json; it is empty for a bare array or text.
    """

    path: Path
    format: str
    messages: tuple[tuple[str, str], ...]
    raw: tuple[Mapping[str, Any], ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)

    def wrong(self, what: str) -> DataError:
        """Returns the DataError on this file; `what` describes the problem."""
        return DataError(str(self.path), [what])


def read(path: str | Path, format: str | None = None) -> PromptFile:
    """Returns the file at `path`; without `format` it is detected from the name, or from the messages.

    Raises UnknownName for another format, and DataError, one sentence, for a file that is not a prompt.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise UnknownName("format that can be imported", format, FORMATS)
    try:
        text = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"the prompt is not UTF-8 text ({error})."]) from None
    if path.suffix == ".md":
        what = "Markdown is for reading and cannot be taken over; write the prompt with `ragc export COMPILED"
        raise DataError(str(path), [f"{what} --to openai-json --out PATH`, edit that file and name it here."])
    if path.suffix in _TEXT:
        return PromptFile(path, "jinja2", (("user", text),))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        expected = f"a JSON array of messages, an object with them, or a template that ends in {_TEXT[0]}"
        raise DataError(str(path), [f"it is no JSON ({error}); wanted is {expected}."]) from None
    if problem := _unusable(document):
        raise DataError(str(path), [f"it holds {problem}, which no prompt of ragc has."])
    return _of_json(path, document, format)


def contents(path: Path) -> bytes:
    """Returns the bytes of the prompt at `path`; raises DataError for no file or one above MOST_BYTES."""
    try:
        return inputs.read_bytes(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(str(path), [f"the prompt cannot be read: {why}."]) from None


def _unusable(value: Any) -> str:
    """Returns what in the JSON `value` no prompt can contain (lone surrogates, huge numbers), or ""."""
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > DEEPEST:
            return f"arrays and objects nested deeper than {DEEPEST} levels"
        if isinstance(one, float) and not math.isfinite(one):
            return "a number that is not finite"
        if isinstance(one, int) and abs(one) >= _EXACT:
            return "an integer of more than 64 bits"
        if isinstance(one, str) and any("\ud800" <= c <= "\udfff" for c in one):
            return "half of a surrogate pair"
        if isinstance(one, dict):
            waiting += [(part, depth + 1) for pair in one.items() for part in pair]
        elif isinstance(one, list):
            waiting += [(part, depth + 1) for part in one]
    return ""


def _of_json(path: Path, document: Any, format: str | None) -> PromptFile:
    fields = document if isinstance(document, dict) else {}
    request = fields.get("request") if isinstance(fields.get("request"), dict) else fields
    raw = request.get("messages") if isinstance(request, dict) and fields else document
    if not isinstance(raw, list) or not raw:
        raise DataError(str(path), ["it holds no messages: an array of objects with role and content."])
    messages = tuple(_message(path, number, one) for number, one in enumerate(raw, 1))
    file_format = format or _format(path, fields, messages)
    return PromptFile(
        path, file_format, messages, tuple(raw), {**fields, "request": request} if fields else {}
    )


_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "function_call"})
"""Keys of a message; the last two must be empty."""


_TEXT_TYPES = ("text", "input_text", "output_text")
"""Types of the parts of a message that are texts."""


def _message(path: Path, number: int, one: Any) -> tuple[str, str]:
    if not isinstance(one, dict):
        raise DataError(str(path), [f"message {number} is no object with role and content."])
    role = one.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise DataError(
            str(path),
            [f"message {number} has the role {str(role)[:60]!r}; only {', '.join(_ROLES)} can be imported."],
        )
    if one.get("tool_calls") or one.get("function_call"):
        raise DataError(str(path), [f"message {number} calls tools, which no prompt of ragc does."])
    if extra := sorted(one.keys() - _MESSAGE_KEYS):
        what = f"the key {_shown(one, extra[0])}"
        raise DataError(
            str(path), [f"message {number} has {what}, which no prompt of ragc sends; remove it."]
        )
    return _ROLES[role], _content(path, number, one.get("content"))


def _content(path: Path, number: int, content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type", "text") in _TEXT_TYPES else None
        for part in parts
    ]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(str(path), [f"message {number} holds something else than text."])
    for part in content if isinstance(content, list) else ():
        if extra := sorted(part.keys() - {"type", "text"}):
            what = f"a part with the key {_shown(part, extra[0])}"
            raise DataError(
                str(path), [f"message {number} has {what}, which no prompt of ragc sends; remove it."]
            )
    return "".join(map(str, texts))


def _shown(one: Mapping[str, Any], key: str) -> str:
    """Returns a key with the beginning of its value."""
    return f"{key!r} ({shorten(json.dumps(one[key], ensure_ascii=False), 200)})"


def _format(path: Path, fields: Mapping[str, Any], messages: tuple[tuple[str, str], ...]) -> str:
    if path.name.endswith(".openai.json") or "slots" in fields:
        return "openai-json"
    tags = any(re.search(r"\{[{%#]", re.sub(_SLOT, "", content)) for _, content in messages)
    return "jinja2" if path.name.endswith(".jinja.json") or tags else "openai-json"
