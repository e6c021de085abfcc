"""Counts tokens, the unit of every chunk size.

The encoding is `cl100k_base`, from the copy in the litellm distribution. It is a fixed unit and not the
tokenizer of the answering model, so a chunk size means the same for every target. Nothing is downloaded, and
litellm itself is not imported.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from functools import cache
from importlib.metadata import distribution
from itertools import accumulate
from pathlib import Path
from typing import Any

from ragc.errors import UsageError

_FILE = "litellm/litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"(\s{1000})")
"""Longer runs of white space overflow the stack of the tokenizer."""


def count(text: str) -> int:
    """Returns the number of tokens of `text`; markers such as `<|endoftext|>` count as plain text."""
    return len(_encode(text))


def starts(text: str) -> list[int]:
    """Returns the character offset at which each token of `text` begins, in order, not decreasing.

    A token that begins inside a character has the offset of that character.
    """
    if text.isascii():  # a byte a character, which is faster
        return list(accumulate(map(len, encoding().decode_tokens_bytes(_encode(text))), initial=0))[:-1]
    return list(encoding().decode_with_offsets(_encode(text))[1])


def _encode(text: str) -> list[int]:
    """Returns the tokens of `text`, half surrogate pairs read as U+FFFD so that offsets still hold."""
    text = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
    return [token for part in _BLANKS.split(text) for token in encoding().encode_ordinary(part)]


@cache
def encoding() -> Any:
    """Returns the encoding, loaded by the first call.

    Raises UsageError if the installed litellm does not have its unchanged file.
    """
    import tiktoken

    file = Path(str(distribution("litellm").locate_file(_FILE)))
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise UsageError(
            "Chunk sizes are counted with cl100k_base, which the litellm distribution carries, but there is "
            f"no unchanged {_FILE} in it. Reinstall litellm; nothing is downloaded for this."
        )
    ranks = {b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
    return tiktoken.Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
