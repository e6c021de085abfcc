"""Texts of others: role markers escaped, halves of surrogate pairs replaced, errors cut to one line.

A marker is what a chat template or DSPy would read as a command. It keeps its letters and loses its effect:
one space is put behind its opening bracket.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MARKERS = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|> and their full-width kin
    r"|<(?=/?(?:s|bos|eos|start_of_turn|end_of_turn|think|tool_call|tool_response)>)"
    r"|<(?=<(?:/?SYS|CUSTOM-TYPE-(?:START|END)-IDENTIFIER)>>)"
    r"|\[(?=/?INST\])"
    r"|\[(?=\[ ## )",
    re.IGNORECASE,
)
_SURROGATES = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=8192)  # one passage is shown to many calls and trials
def escape_markers(text: str) -> str:
    """`text` with role markers and content markers defused; unchanged when it holds none."""
    return _MARKERS.sub(lambda match: match.group() + " ", text)


def escape_surrogates(text: str) -> str:
    """`text` with halves of surrogate pairs, which UTF-8 cannot hold, written as JSON escapes."""
    return _SURROGATES.sub(lambda half: f"\\u{ord(half.group()):04x}", text)


def replace_surrogates(text: str) -> str:
    """`text` with "?" for each half of a surrogate pair, which no tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def first_line(error: BaseException, limit: int | None = 200) -> str:
    """The first line of an error's message (else its class): at most `limit` characters, no full stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:limit].rstrip(".")
