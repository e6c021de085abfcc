"""Copies: whether a part stands in a question, and whether a segment was copied from a passage.

GGatrieval, sections 3.1 and 3.2, asks the model for both and checks neither; the checks are ours. Texts are
compared by their words without case, accents, marks, endings and articles.

- A part stands in a question when its words stand there in order; language splits what belongs together ("did
  sink" in "When did the Titanic sink?").
- A segment is a copy when rapidfuzz finds a window of the passage that is `ALIKE`, all its words are in that
  window, and the window has no number and no word more that turns it into something else ("not elected").

Of 371 labelled parts 371 pass and of 51 wrong ones 5; of 116 labelled copies 114 and of 71 wrong ones none.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rapidfuzz.distance import LCSseq
from rapidfuzz.fuzz import partial_ratio_alignment

ALIKE = 85.0
"""The least likeness of a segment and its window, 0 to 100, in words."""


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


ARTICLES = _set_of("a an the s")
LIGHT = ARTICLES | _set_of(
    "of in on at to for with as and or that which who am is are was were be been has have had do does did it "
    "its"
)
"""Words that a copy may leave out or add."""

TURNING = _set_of(
    "not no never nor without cannot hardly except non almost nearly former formerly only acting last half "
    "vice deputy than"
)
"""Words that turn those behind them into something else."""

_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
_WORD = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+[+#]*")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|es|ed|s|y|e)$")
_ASIDE = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_FORMS = (
    (r"n['’]t\b", " not"),
    (r"\b(who|what|where|when|how|that|there|it|he|she)['’]s\b", r"\1 is"),
    (r"(?<=\d)[, ](?=\d{3}\b)|(?<=\b[^\W\d])\.\s?(?=[^\W\d]\.)", ""),
    (r"(?<=\d)(?:st|nd|rd|th)\b", ""),
    (r"(?<!\d)\.(?=\d)", "0."),
)


@lru_cache(maxsize=64)
def words_of(text: str, left_out: frozenset[str] = ARTICLES) -> tuple[str, ...]:
    """Returns the words and numbers of `text` in order, in one form of writing, without those `left_out`."""
    plain = unicodedata.normalize("NFKD", text.casefold().replace("ł", "l"))
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign))
    for pattern, replacement in _FORMS:
        plain = re.sub(pattern, replacement, plain)
    words = (word for word in _WORD.findall(plain) if word not in left_out)
    return tuple(
        str(_ORDINALS.index(word) + 1) if word in _ORDINALS else _ENDING.sub("", word) for word in words
    )


def parts_in(part: str, question: str) -> tuple[tuple[str, ...], int]:
    """Returns the parts that `part` names in `question`, and the number of those that do not stand there.

    A part with commas that does not stand there in one piece is split at them.
    """
    pieces = [piece.strip() for piece in re.split(r"[,،、，](?!\d)", part) if words_of(piece)]
    if len(pieces) > 1 and find_run(part, question) is None:
        standing = tuple(piece for piece in pieces if is_part(piece, question))
        return standing, len(pieces) - len(standing)
    return ((part,), 0) if is_part(part, question) else ((), 1)


def is_part(part: str, question: str) -> bool:
    """Returns whether the words of `part` stand in `question` in order."""
    words = words_of(question)
    forms = (words_of(part), words_of(part.replace("-", "")))
    return any(form and LCSseq.similarity(form, words) == len(form) for form in forms)


def find_run(part: str, text: str) -> tuple[int, int] | None:
    """Returns start and end of `part` in `text` in one piece, whatever its case and white space; or None."""
    words = part.strip(" \t\r\n.,;:!?…\"'*_").split()
    if not words:
        return None
    ends = r"(?<!\w)" * words[0][0].isalnum(), r"(?!\w)" * words[-1][-1].isalnum()
    match = re.search(r"\s+".join(map(re.escape, words)).join(ends), text, re.IGNORECASE)
    return match.span() if match else None


def is_copied(segment: str, text: str) -> bool:
    """Returns whether `segment` is a piece of `text`, with or without what stands in brackets there."""
    texts = (words_of(text, LIGHT), words_of(_ASIDE.sub("", text), LIGHT))
    forms = (words_of(form, LIGHT) for form in (segment, segment.replace("-", "")))
    return any(_is_run(form, shown) for form in forms for shown in texts)


def _is_run(words: tuple[str, ...], text: tuple[str, ...]) -> bool:
    if not 0 < len(words) <= len(text):
        return False
    window = partial_ratio_alignment(words, text, score_cutoff=ALIKE)
    if window is None:
        return False
    start, end = window.dest_start, window.dest_end
    before, inside = {*text[max(0, start - 1) : start]}, {*text[start:end]}
    turning = (before | inside) & TURNING | {word for word in inside if word[0].isdigit()}
    return turning <= {*words} <= before | inside | {*text[end : end + 1]}
