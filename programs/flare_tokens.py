"""Token probabilities of one field: which tokens of a raw reply spell the field's text.

The tokens of a reply spell its frame too (braces, keys, quotes, or an adapter's markers). Only the
characters of the field itself are kept here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence

from ragc.targets.base import TokenLogprob

_ESCAPE = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])'
)

Spelled = list[tuple[str, int]]
"""Characters of a text, each with its offset in the raw reply."""


def pieces(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """The tokens that spell `text`, the value of `field`, each cut to its characters in it.

    Tokens of the frame are left out. Empty when the tokens do not spell `text`. Characters that
    several tokens make together may be broken in them, so only the ASCII ones must agree.
    """
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_plain(raw, field, text)):
        if spelled and _same("".join(char for char, _ in spelled), text):
            return _cut(tokens, spelled)
    return ()


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """The exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else 0.0


def _same(found: str, text: str) -> bool:
    if found.strip() == text.strip():
        return True
    plain = [re.sub(r"[^\x00-\x7f]", "", value).strip() for value in (found, text)]
    return "\ufffd" in found and plain[0] == plain[1]


def _json_values(raw: str, field: str) -> Iterator[Spelled]:
    """What stands behind each key `field` of a JSON text, without quotes and with escapes read."""
    for key in re.finditer(rf'"{re.escape(field)}"\s*:\s*"', raw):
        spelled: Spelled = []
        at = key.end()
        while at < len(raw) and raw[at] != '"':
            escape = _ESCAPE.match(raw, at)
            char = json.loads(f'"{escape.group()}"') if escape else raw[at]
            spelled.append((char, at))
            at = escape.end() if escape else at + 1
        yield spelled


def _plain(raw: str, field: str, text: str) -> Iterator[Spelled]:
    """Where `text` stands as it is, behind the marker of `field` in layouts that are not JSON."""
    for mark in re.finditer(rf"(?:\[\[ ## {re.escape(field)} ## \]\]|<{re.escape(field)}>)\s*", raw):
        if raw.startswith(text.strip(), mark.end()):
            yield [(char, mark.end() + i) for i, char in enumerate(text.strip())]


def _cut(tokens: Sequence[TokenLogprob], spelled: Spelled) -> tuple[TokenLogprob, ...]:
    kept: list[TokenLogprob] = []
    left, start = iter(spelled), 0
    char = next(left, None)
    for token in tokens:
        end, part = start + len(token.token), ""
        while char is not None and char[1] < end:
            part += char[0]
            char = next(left, None)
        if part:
            kept.append(TokenLogprob(part, token.logprob))
        start = end
    return tuple(kept)
