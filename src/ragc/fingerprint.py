"""Canonical JSON and digests: one way to say that two things are the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """`value` as JSON with sorted keys and no spaces. Tuples become lists; NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """The SHA-256 of `canonical(value)`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def row_digest(key: str, text: str) -> str:
    """What a stored row carries to show damage: 32 hexadecimal digits (128 bits) over key and text."""
    row = f"{len(key)} {key}{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(row).hexdigest()[:32]


def pretty(value: Any) -> str:
    """`value` as indented JSON with sorted keys and a final newline, for files that people read."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
