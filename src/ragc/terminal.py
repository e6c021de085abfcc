"""What is printed for people: text of strangers shows its control characters instead of acting on the terminal."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, TextIO

# C0 but tab and line feed, DEL, C1, line and paragraph separators, bidirectional overrides and isolates,
# halves of surrogate pairs.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HALVES = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    r"""`text` with every character that acts on a terminal written as an escape such as `\x1b` or `\u202e`."""
    return _ACTING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def write(text: str) -> None:
    """Print `text`, made `visible`, on stdout."""
    _write(sys.stdout, visible(text))


def write_error(text: str) -> None:
    """Print `text`, made `visible`, on stderr."""
    _write(sys.stderr, visible(text))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON that any stream and any parser of UTF-8 takes: halves of surrogate pairs are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _HALVES.sub(_escape, text)  # they stand in strings only, where JSON knows the same escape


def write_json(value: Any) -> None:
    """Print `value` as one JSON document on stdout, in ASCII where the stream takes nothing else."""
    text = json_text(value, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    sys.stdout.write(f"{text}\n")


def _write(stream: TextIO, text: str) -> None:
    """Print `text`; what the encoding of `stream` lacks is escaped."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
