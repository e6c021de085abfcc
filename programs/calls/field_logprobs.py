"""The log probabilities of one output field: of the tokens of a raw reply that spell its value.

Other tokens of the reply (braces, keys, quotes, or an adapter's markers) are not counted.
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
    """Returns the tokens that spell `text`, the value of `field`, each cut to its characters in it.

    Tokens around the value are left out. Empty when the tokens do not spell `text`. If several tokens make
    one character the first one has it, and the others may be empty. A value that was read without regard to
    case and marks (`(b)` for B, `Yes.` for yes) is found under the spelling of the reply.
    """
    if not text.strip():
        return ()
    spaced = [TokenLogprob(token.token.translate(_SPACES), token.logprob) for token in tokens]
    return (
        _spelling(tokens, field, text)
        or _spelling(spaced, field, text)
        or _other_spelling(spaced, field, text)
    )


def _other_spelling(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """Yields tokens of a value equal to `text` except for case and marks around it, without these marks."""
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_sections(raw, field)):
        inside = [at for at, (char, _) in enumerate(spelled) if char.isalnum()]
        core = spelled[inside[0] : inside[-1] + 1] if inside else []
        if core and "".join(char for char, _ in core).casefold() == text.strip().casefold():
            return _crop_tokens(tokens, core)
    return ()


def _spelling(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_plain(raw, field, text)):
        if mended := _respell(spelled, text):
            return _crop_tokens(tokens, mended)
    return ()


def _respell(spelled: Spelled, text: str) -> Spelled:
    """Returns `spelled` with broken characters taken from `text`; empty when it does not spell `text`.

    Tokens that share the bytes of a character show it broken, so only ASCII must agree.
    """
    spelling, text = "".join(char for char, _ in spelled), text.strip()
    if spelling.strip() == text:
        return spelled
    shown, meant = _BEYOND_ASCII.split(spelling.strip()), _BEYOND_ASCII.split(text)
    if len(shown) == 1 or shown[::2] != meant[::2]:
        return []
    parts: list[str] = []
    for broken, whole in zip(shown, meant, strict=True):
        last = len(broken) - 1
        parts += [whole[i:] if i == last else whole[i : i + 1] for i in range(len(broken))]
    first = len(spelling) - len(spelling.lstrip())
    return [(part, spelled[i][1]) for i, part in enumerate(parts, first)]


def _json_values(raw: str, field: str) -> Iterator[Spelled]:
    """Yields the text value of each key `field` of a JSON text, without quotes and with escapes decoded."""
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
    """Yields where `text` follows the marker of `field` unchanged, in layouts that are not JSON."""
    for mark in re.finditer(rf"(?:\[\[ ## {re.escape(field)} ## \]\]|<{re.escape(field)}>)\s*", raw):
        if raw.startswith(text.strip(), mark.end()):
            yield [(char, mark.end() + i) for i, char in enumerate(text.strip())]


def _sections(raw: str, field: str) -> Iterator[Spelled]:
    """Yields the text after each marker of `field`, up to the next marker, in layouts that are not JSON."""
    name = re.escape(field)
    for mark in re.finditer(
        rf"(?:\[\[ ## {name} ## \]\]|<{name}>)(.*?)(?:\[\[ ## |</{name}>|\Z)", raw, re.DOTALL
    ):
        yield [(char, mark.start(1) + at) for at, char in enumerate(mark[1])]


def _crop_tokens(tokens: Sequence[TokenLogprob], spelled: Spelled) -> tuple[TokenLogprob, ...]:
    cut_tokens: list[TokenLogprob] = []
    left, start = iter(spelled), 0
    char = next(left, None)
    for token in tokens:
        end, parts = start + len(token.token), []
        while char is not None and char[1] < end:
            parts.append(char[0])
            char = next(left, None)
        if parts:
            cut_tokens.append(TokenLogprob("".join(parts), token.logprob))
        start = end
    return tuple(cut_tokens)


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """Returns the exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(min(0.0, sum(token.logprob for token in tokens) / len(tokens))) if tokens else 0.0
