"""The log probabilities of one output: of the tokens of a raw reply that spell its value.

Other tokens of the reply (braces, keys, quotes, or an adapter's markers) are not counted.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ragc.targets.base import TokenLogprob

_ESCAPE = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])'
)
_BEYOND_ASCII = re.compile(r"([^\x00-\x7f]+)")
_SPACES = {"Ġ": " ", "Ċ": "\n", "▁": " "}
"""How vocabularies write white space."""

Spelled = list[tuple[str, int]]
"""The characters of a text, each with its offset in the raw reply."""


def field_tokens(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """Returns the tokens that spell `text`, the value of `field`, each cut to its characters in it.

    Tokens around the value are left out. Empty when the tokens do not spell `text`. If several tokens make
    one character the first one has it, and the others may be empty. A value that was parsed without regard
    to case and marks (`(b)` for B, `Yes.` for yes) is found under the spelling of the reply.
    """
    text = text.strip()
    spaces = str.maketrans({mark: space for mark, space in _SPACES.items() if mark not in text})
    raw = "".join(token.token for token in tokens).translate(spaces)
    for value in _values(raw, field):
        if text and (spelled := _spelling(value, text)):
            return _cut_tokens(tokens, spelled)
    return ()


def _values(raw: str, field: str) -> Iterator[Spelled]:
    """Yields the values of `field`: JSON texts without escapes, then what follows an adapter's markers."""
    name = re.escape(field)
    for key in re.finditer(rf'"{name}"\s*:\s*"((?:[^"\\]|\\.)*)', raw, re.DOTALL):
        spelled: Spelled = []
        position = key.start(1)
        while position < key.end(1):
            escape = _ESCAPE.match(raw, position)
            spelled.append((json.loads(f'"{escape.group()}"') if escape else raw[position], position))
            position = escape.end() if escape else position + 1
        yield spelled
    markers = rf"(?:\[\[ ## {name} ## \]\]|<{name}>)(.*?)(?:\[\[ ## |</{name}>|\Z)"
    for mark in re.finditer(markers, raw, re.DOTALL):
        yield [(character, mark.start(1) + i) for i, character in enumerate(mark[1])]


def _spelling(value: Spelled, text: str) -> Spelled:
    """Returns the part of `value` that spells `text`, with its broken characters whole; [] if it does not.

    Tokens that share the bytes of a character show it broken, so only ASCII must agree.
    """
    written = "".join(character for character, _ in value)
    first, last = len(written) - len(written.lstrip()), len(written.rstrip())
    shown, meant = _BEYOND_ASCII.split(written[first:last]), _BEYOND_ASCII.split(text)
    if shown == meant or (len(shown) > 1 and shown[::2] == meant[::2]):
        parts: list[str] = []
        for broken, whole in zip(shown, meant, strict=True):
            parts += [whole[i : i + 1] for i in range(len(broken) - 1)]
            parts += [whole[len(broken) - 1 :]] if broken else []
        return [(part, value[i][1]) for i, part in enumerate(parts, first)]
    letters = [i for i, character in enumerate(written) if character.isalnum()]
    core = value[letters[0] : letters[-1] + 1] if letters else []
    return core if "".join(character for character, _ in core).casefold() == text.casefold() else []


def _cut_tokens(tokens: Sequence[TokenLogprob], spelled: Spelled) -> tuple[TokenLogprob, ...]:
    ends = list(accumulate(len(token.token) for token in tokens))
    parts: defaultdict[int, str] = defaultdict(str)
    for character, position in spelled:
        parts[bisect_right(ends, position)] += character
    return tuple(TokenLogprob(part, tokens[index].logprob) for index, part in parts.items())


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """Returns the exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(min(0.0, sum(token.logprob for token in tokens) / len(tokens))) if tokens else 0.0
