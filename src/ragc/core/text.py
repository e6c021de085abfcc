"""Makes texts of others safe: escapes role markers, control characters and surrogates, cuts errors short.

A marker is what a chat template or DSPy would read as a command. It keeps its letters and loses its effect:
one space is put behind its opening bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MARKERS = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|> and their full-width kin
    r"|<(?=/?(?:s|bos|eos|start_of_turn|end_of_turn|think|tool_call|tool_response)>)"
    r"|<(?=<(?:/?SYS|CUSTOM-TYPE-(?:START|END)-IDENTIFIER)>>)"
    r"|\[(?=/?INST\])"
    r"|\[(?=\[ ## )",
    re.IGNORECASE,
)
NUMBERS = re.compile(r"(?<=[\n\r\v\f\x85\u2028\u2029])[ \t]*\[(?=\d+\])")
_SURROGATES = re.compile("[\ud800-\udfff]")

# C0 except tab and line feed, DEL, C1, line and paragraph separators, bidirectional embeddings, overrides and
# isolates, lone surrogates.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@lru_cache(maxsize=8192)  # one passage is shown to many calls and trials
def escape_markers(text: str) -> str:
    """`text` with role markers and content markers defused; unchanged when it holds none."""
    return MARKERS.sub(lambda match: match.group() + " ", text)


def escape_value(value: Any) -> Any:
    """Returns a copy of `value` with `escape_markers` applied to every text in it, as `repair_value` does."""
    return _texts(value, escape_markers)


def escape_numbers(text: str) -> str:
    """`text` with `[2]` and the like at the beginning of its lines, but the first, defused.

    So an item of a numbered list cannot be taken for the next one.
    """
    return NUMBERS.sub(lambda match: match.group() + " ", text) if "[" in text else text


def escape_surrogates(text: str) -> str:
    """Returns `text` with halves of surrogate pairs, which UTF-8 cannot hold, written as JSON escapes."""
    return _SURROGATES.sub(_escape, text)


def visible(text: str) -> str:
    r"""Returns `text` with every terminal control character escaped, such as `\u001b`.

    The escapes are those of JSON, so JSON text remains valid and has the same value.
    """
    return _ACTING.sub(_escape, text)


def json_text(value: Any) -> str:
    """Returns `value` as one line of JSON that UTF-8 can encode: lone surrogates are escaped."""
    return escape_surrogates(json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def repair_surrogates(text: str) -> str:
    """Returns `text` with surrogate pairs joined, and lone surrogates replaced by U+FFFD."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def repair_value(value: Any) -> Any:
    """Returns a copy of `value` with `repair_surrogates` applied to every text in it, keys included.

    Lists, tuples and mappings are searched; other objects are not changed.
    """
    return _texts(value, repair_surrogates)


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_texts(item, change) for item in value)
    if isinstance(value, Mapping):
        return {_texts(key, change): _texts(item, change) for key, item in value.items()}
    return value


def first_line(error: BaseException, limit: int | None = 200) -> str:
    """Returns the first line of an error's message (else its class): at most `limit` characters, no full
    stop.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:limit].rstrip(".")
