"""Counts tokens, the unit of every chunk size.

The encoding is `cl100k_base`, from the copy in the litellm distribution. It is a fixed unit and not the
tokenizer of the answering model, so a chunk size means the same for every target. Nothing is downloaded, and
litellm itself is not imported.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ragc.errors import UsageError

if TYPE_CHECKING:
    from tiktoken import Encoding

NAME = "cl100k_base"

_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # the SHA-1 of its address: tiktoken's name for it
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_FOLDER = Path("litellm_core_utils", "tokenizers")
_SURROGATE = re.compile("[\ud800-\udfff]")
_loading = Lock()


def count(text: str) -> int:
    """Returns the number of tokens of `text`; markers such as `<|endoftext|>` count as plain text."""
    return len(_encode(text))


def starts(text: str) -> list[int]:
    """Returns the character offset at which each token of `text` begins, in order, not decreasing.

    A token that begins inside a character has the offset of that character.
    """
    tokens = _encode(text)
    if text.isascii():
        lengths = map(len, encoding().decode_tokens_bytes(tokens))
        return list(accumulate(lengths, initial=0))[:-1]
    return encoding().decode_with_offsets(tokens)[1]


def _encode(text: str) -> list[int]:
    """Returns the tokens of `text`, half surrogate pairs read as U+FFFD so that offsets still hold."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    return encoding().encode_ordinary(text)


def encoding() -> Encoding:
    """Returns the encoding, loaded by the first call. Thread-safe.

    Raises UsageError if the installed litellm does not have its unchanged file.
    """
    with _loading:
        return _load()


@cache
def _load() -> Encoding:
    folder = _checked_folder()
    import tiktoken

    # tiktoken takes its files from the folder that this variable names, and only looks elsewhere
    # when one is missing or changed: `_checked_folder` has excluded both.
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return tiktoken.get_encoding(NAME)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


def _checked_folder() -> Path:
    spec = find_spec("litellm")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if not roots:
        raise UsageError(
            f"Chunk sizes are counted with {NAME}, which the litellm distribution carries, and litellm is "
            "not installed. Install it."
        )
    for root in roots:
        file = Path(root) / _FOLDER / _FILE
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == _SHA256:
            return file.parent
    raise UsageError(
        f"Chunk sizes are counted with {NAME}, but the installed litellm does not hold an unchanged "
        f"{_FOLDER / _FILE}. Reinstall litellm; nothing is downloaded for this."
    )
