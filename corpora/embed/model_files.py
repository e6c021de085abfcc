"""What models of texts in a folder have in common: where their files are, and what identifies them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ONNX = ("model.onnx", "onnx/model.onnx")
"""Where a folder keeps a model in ONNX form, the first that is there."""

TOKENIZER = "tokenizer.json"


def model_file(folder: Path) -> Path:
    """The model in ONNX form in `folder`, or where it would be."""
    return next((folder / name for name in ONNX if (folder / name).is_file()), folder / ONNX[0])


def pad_id(tokenizer: Tokenizer) -> int:
    """The token that fills what is shorter than the rest of a batch."""
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    found = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((at for at in found if at is not None), 0)


def settings(path: Path) -> dict[str, Any]:
    """The JSON object in the file `path`; empty without one. Raises UsageError when it cannot be read."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}.") from error
    return said if isinstance(said, dict) else {}


def content(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a model, by its path in `folder`; hidden ones aside.

    Raises UsageError when one cannot be read.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            try:
                with path.open("rb") as file:
                    found[inside.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    return found


def first_line(error: Exception) -> str:
    """What a library said, in one line of at most 200 characters without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
