"""Log probabilities of one output field: which tokens of a raw reply spell the field's value.

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
_BEYOND_ASCII = re.compile(r"([^\x00-\x7f]+)")
_SPACES = str.maketrans({"Ġ": " ", "Ċ": "\n", "▁": " "})  # as vocabularies write white space

Spelled = list[tuple[str, int]]
"""The parts of a text, characters or what stands for them, each with its offset in the raw reply."""


def field_tokens(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """The tokens that spell `text`, the value of `field`, each cut to its characters in it.

    Tokens of the frame are left out. Empty when the tokens do not spell `text`. Of tokens that make a
    character together the first one has it, and the others may be empty.
    """
    if not text.strip():
        return ()
    return _spelling(tokens, field, text) or _spelling(
        [TokenLogprob(token.token.translate(_SPACES), token.logprob) for token in tokens], field, text
    )


def _spelling(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_plain(raw, field, text)):
        if mended := _mended(spelled, text):
            return _cut(tokens, mended)
    return ()


def _mended(spelled: Spelled, text: str) -> Spelled:
    """`spelled` with what is broken in it taken from `text`; empty when it does not spell `text`.

    Tokens that share the bytes of a character show it broken, so only ASCII must agree.
    """
    found, text = "".join(char for char, _ in spelled), text.strip()
    if found.strip() == text:
        return spelled
    shown, meant = _BEYOND_ASCII.split(found.strip()), _BEYOND_ASCII.split(text)
    if len(shown) == 1 or shown[::2] != meant[::2]:
        return []
    parts: list[str] = []
    for broken, whole in zip(shown, meant, strict=True):
        last = len(broken) - 1
        parts += [whole[i:] if i == last else whole[i : i + 1] for i in range(len(broken))]
    first = len(found) - len(found.lstrip())
    return [(part, spelled[i][1]) for i, part in enumerate(parts, first)]


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
        end, parts = start + len(token.token), []
        while char is not None and char[1] < end:
            parts.append(char[0])
            char = next(left, None)
        if parts:
            kept.append(TokenLogprob("".join(parts), token.logprob))
        start = end
    return tuple(kept)


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """The exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(min(0.0, sum(token.logprob for token in tokens) / len(tokens))) if tokens else 0.0
