"""Trims proposed instructions and selects those that may be candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragc.core.text import escape_markers

LONGEST = 1200
"""The most characters of an instruction; a longer one is cut at the end of a sentence or line."""

SHORTEST = 12
"""The least characters of an instruction."""

QUOTED = 12
"""The length in characters from which a gold answer inside an instruction counts as quoted."""

LISTED = 3
"""The number of different shorter answers, of at least four characters, that count as a list of answers."""

_PREFIX = re.compile(
    r"^[*#\s]*(?:(?:the|a)\s+)?(?:(?:new|proposed|improved|revised|updated)\s+)+instructions?\s*:\s*[*\s]*",
    re.IGNORECASE,
)
_BREAK = re.compile(r"[.!?:;](?=\s)|\n")


def trim(text: str) -> str:
    """`text` without a model's wrapping around the instruction, at most LONGEST characters.

    "" if nothing remains. It is cut at the last end of a sentence or line in the second half, else at a word.
    """
    plain = _strip_fence(text.strip())
    plain = _PREFIX.sub("", plain).strip()
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'`":
        plain = plain[1:-1].strip()
    plain = re.sub(r"[ \t]+", " ", re.sub(r"\n{3,}", "\n\n", plain))
    if len(plain) <= LONGEST:
        return plain
    ends = [match.end() for match in _BREAK.finditer(plain, 0, LONGEST) if match.end() >= LONGEST // 2]
    return plain[: ends[-1]].rstrip() if ends else plain[:LONGEST].rpartition(" ")[0].rstrip()


def _strip_fence(text: str) -> str:
    inside = re.fullmatch(r"```[a-z]*\n(.*?)\n?```", text, re.DOTALL)
    return inside.group(1).strip() if inside else text


def usable(text: str, answers: Iterable[str]) -> bool:
    """Whether `text` may be an instruction.

    It is long enough, has no marker of an adapter or a chat template, and does not reveal `answers`: it
    quotes none of QUOTED or more characters, and fewer than LISTED different shorter ones.
    """
    if len(text) < SHORTEST or escape_markers(text) != text or "[[ ##" in text:
        return False
    folded_text = _fold(text)
    known = {folded for answer in answers if (folded := _fold(answer))}
    if any(len(answer) >= QUOTED and answer in folded_text for answer in known):
        return False
    short = {
        a for a in known if 4 <= len(a) < QUOTED and re.search(rf"(?<!\w){re.escape(a)}(?!\w)", folded_text)
    }
    return len(short) < LISTED


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def candidates(present: str, proposals: Sequence[str], answers: Iterable[str], n: int) -> tuple[str, ...]:
    """At most `n` instructions: `present`, then the first usable `proposals` without duplicates.

    Proposals are trimmed first. Case and white space are ignored when comparing.
    """
    known, accepted = tuple(answers), [present]
    seen = {_fold(present)}
    for proposal in proposals:
        text = trim(proposal)
        if len(accepted) < n and _fold(text) not in seen and usable(text, known):
            seen.add(_fold(text))
            accepted.append(text)
    return tuple(accepted)
