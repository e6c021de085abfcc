"""Canonical JSON and digests: one way to say that two things are the same."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")


def canonical(value: Any) -> str:
    """`value` as JSON with sorted keys and no spaces. Tuples become lists; NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """The SHA-256 of `canonical(value)`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def pretty(value: Any) -> str:
    """`value` as indented JSON with sorted keys and a final newline, for files that people read.

    Halves of surrogate pairs, which UTF-8 cannot hold, are escaped.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _HALVES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
