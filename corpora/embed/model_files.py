"""Model folders: the paths of an ONNX model, its tokenizer and its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core.digest import file_digest
from ragc.core.text import first_line
from ragc.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ONNX = ("model.onnx", "onnx/model.onnx")
"""The possible paths of an ONNX model in a folder, in order of preference."""

TOKENIZER = "tokenizer.json"


def model_file(folder: Path) -> Path:
    """Returns the path of the ONNX model in `folder`, existing or expected."""
    return next((folder / name for name in ONNX if (folder / name).is_file()), folder / ONNX[0])


def has_onnx(folder: Path) -> bool:
    """Returns whether `folder` has a model in ONNX form."""
    return model_file(folder).is_file()


def pad_id(tokenizer: Tokenizer) -> int:
    """Returns the id of the padding token."""
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    ids = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((at for at in ids if at is not None), 0)


def settings(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file `path`; empty if the file is missing. Raises UsageError if it
    cannot be read.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}.") from error
    return config if isinstance(config, dict) else {}


def checksums(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of the tokenizer, the ONNX model and the model's external data beside it, by file
    name.

    Raises UsageError when one cannot be read.
    """
    model = model_file(folder)
    files = [folder / TOKENIZER, *sorted(model.parent.glob(f"{model.name}*"))]
    files = [path for path in files if path.name != f"{model.name}.json"]  # the record of a download
    return file_digests({path.name: path for path in files})


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
