"""Canonical JSON and digests: one way to say that two things are the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")
_SEAL = "digest"


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


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """`value`, JSON values by name, with a digest of itself under `digest`."""
    return {**value, _SEAL: digest(dict(value))}


def unsealed(value: object) -> dict[str, Any] | None:
    """What was given to `sealed`; None when `value` is not what that made of it."""
    if not isinstance(value, dict):
        return None
    body = {name: item for name, item in value.items() if name != _SEAL}
    try:
        return body if value.get(_SEAL) == digest(body) else None
    except (ValueError, RecursionError):
        return None


def pretty(value: Any) -> str:
    """`value` as indented JSON with sorted keys and a final newline, for files that people read.

    Halves of surrogate pairs, which UTF-8 cannot hold, are escaped.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _HALVES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
