"""Canonical JSON and SHA-256 digests of values, files and folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragc.core.text import escape_surrogates
from ragc.errors import UsageError


def canonical(value: Any) -> str:
    """Returns `value` as JSON with sorted keys and no spaces. Tuples become lists; NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Returns the SHA-256 of `canonical(value)`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def pretty(value: Any) -> str:
    """Returns `value` as indented JSON with sorted keys and a final newline, for files that people read.

    Lone surrogates, which UTF-8 cannot encode, are escaped.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return escape_surrogates(text)


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of the file `path`, 64 hexadecimal digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Returns the SHA-256 of each of `files`, by the same names. Raises UsageError for a file that cannot be
    read.
    """
    try:
        return {name: file_digest(path) for name, path in files.items()}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}.") from error


def folder_digests(folder: Path, patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    """Returns the SHA-256 of a model's files by their path in `folder`, sorted, without hidden files and
    folders.

    `patterns` select files at any depth. Raises UsageError for a file that cannot be read.
    """
    matches = sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()})
    paths = [(path.relative_to(folder), path) for path in matches]
    return file_digests(
        {
            inner.as_posix(): path
            for inner, path in paths
            if not any(part.startswith(".") for part in inner.parts)
        }
    )
