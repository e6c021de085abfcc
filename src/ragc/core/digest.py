"""Canonical JSON and SHA-256 digests of values, files and folders."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ragc.core.text import escape_surrogates

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """Returns `value` as JSON with sorted keys and no spaces. Tuples become lists; NaN is refused."""
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """Returns the SHA-256 of `canonical(value)`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def pretty(value: Any, *, sort_keys: bool = True) -> str:
    """Returns `value` as indented JSON with a final newline, for files that people read.

    Lone surrogates, which UTF-8 cannot encode, are escaped.
    """
    return escape_surrogates(
        json.dumps(value, sort_keys=sort_keys, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    )


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of the file `path`, 64 hexadecimal digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
