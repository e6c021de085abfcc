"""Model folders: the paths of an ONNX model, its tokenizer and its settings, and what identifies their
content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragc.core.digest import file_digest
from ragc.core.text import first_line
from ragc.errors import UsageError

ONNX = ("model.onnx", "onnx/model.onnx")
"""The possible paths of an ONNX model in a folder, in order of preference."""

TOKENIZER = "tokenizer.json"
ONNX_FILES = (TOKENIZER, "model.onnx", "model.onnx[._]data*")
"""Patterns of the files that decide what a model in ONNX form gives."""


def model_file(folder: Path) -> Path:
    """Returns the path of the ONNX model in `folder`, existing or expected."""
    return next((folder / name for name in ONNX if (folder / name).is_file()), folder / ONNX[0])


def has_onnx(folder: Path) -> bool:
    """Returns whether `folder` has a model in ONNX form."""
    return model_file(folder).is_file()


def settings(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file `path`; empty if the file is missing. Raises UsageError if it
    cannot be read.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}.") from error
    return config if isinstance(config, dict) else {}


def folder_digests(folder: Path, patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    """Returns the SHA-256 of a model's files by their path in `folder`, sorted, without hidden files and
    folders.

    `patterns` select files at any depth. Raises UsageError for a file that cannot be read.
    """
    found = {
        path.relative_to(folder): path
        for pattern in patterns
        for path in folder.rglob(pattern)
        if path.is_file()
    }
    shown = {
        inner: path for inner, path in found.items() if not any(part.startswith(".") for part in inner.parts)
    }
    try:
        return {inner.as_posix(): file_digest(path) for inner, path in sorted(shown.items())}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}.") from error
