"""What may be repeated of a server's words: short, in one line, and without anything like a key."""

from __future__ import annotations

import os
import re

from ragc.core.masking import MASK, mask_addresses
from ragc.core.terminal import visible

_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST = 6
_READ, _LOOKED_AT = 2**20, 4000
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=*-]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|hf|xai|ghp|gho|pplx|nvapi|r8|fw)[-_][\w*-]{6,}"), MASK),
    (re.compile(r"\bAIza[\w-]{20,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{10,}\.[\w.-]+"), MASK),
    (
        re.compile(
            r"(?i)\b((?:api|access|secret)[-_ ]?key|token|secret|password)"
            r"(['\"]?\s*[:=]\s*['\"]?)[^\s'\"&,)]{6,}"
        ),
        rf"\1\2{MASK}",
    ),
)
_CONTEXT = re.compile(
    r"(?i)context[-_ ](?:length|window|size)|maximum context|exceeds? (?:the )?(?:available )?context"
    r"|more than the context of|prompt is too long|too many (?:input )?tokens|input is too long"
)

_remembered: set[str] = set()


def remember(secret: str) -> str:
    """`secret` itself, which `redact` masks from now on under whatever name it was found."""
    if len(secret) >= _SHORTEST:
        _remembered.add(secret)
    return secret


def redact(text: str) -> str:
    """`text` with a mask over whatever looks like a key.

    Also masked: each value (of 6 characters or more) of an environment variable whose name ends in
    KEY, TOKEN, SECRET or PASSWORD, and whatever was given to `remember`.
    """
    held = {v for k, v in os.environ.items() if k.upper().endswith(_NAMES) and len(v) >= _SHORTEST}
    held |= _remembered
    for value in sorted(held, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = mask_addresses(text)
    for pattern, mask in _PATTERNS:
        text = pattern.sub(mask, text)
    return text


def shorten(text: str, limit: int = 300) -> str:
    """`text` redacted, on one line, at most `limit` characters, without a final full stop.

    Characters that act on a terminal are written as escapes.
    """
    line = " ".join(text[:_READ].split())
    if len(line) > _LOOKED_AT:  # patterns take long on long texts; a cut word could be half a key
        line = line[:_LOOKED_AT].rpartition(" ")[0]
    line = visible(" ".join(redact(line).split()))
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line.rstrip(".")


def is_context_error(text: str) -> bool:
    """Whether a server's message says that prompt and reply do not fit its context."""
    return _CONTEXT.search(text) is not None
