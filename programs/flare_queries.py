"""What to look up about a sentence that is not sure: its surer words, or its doubtful ones.

Paper: Active Retrieval Augmented Generation, section 3.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from ragc.records import Hit, Passage

_WIDE = "\u2e80"  # the first of the East Asian scripts
Part = tuple[str, float]
"""Words of a sentence and their probability."""


def whole_words(tokens: Sequence[Part]) -> tuple[Part, ...]:
    """Tokens joined to words, each as likely as its least likely token; a word ends before white space.

    Tokens of Chinese and Japanese, which are written without any, stay as they are.
    """
    words: list[Part] = []
    for text, probability in tokens:
        if words and text and not _parted(words[-1][0][-1:], text[0]):
            before, least = words[-1]
            words[-1] = before + text, min(least, probability)
        else:
            words.append((text, probability))
    return tuple(words)


def surer(parts: Sequence[Part], beta: float) -> str:
    """The sentence without its parts below `beta`; the whole when nothing would be left."""
    kept = "".join(words for words, probability in parts if probability >= beta)
    return _tidy(kept) or _tidy("".join(words for words, _ in parts))


def doubtful(parts: Sequence[Part], beta: float) -> tuple[str, ...]:
    """The runs of parts below `beta`, in reading order, each once."""
    runs = groupby(parts, key=lambda part: part[1] < beta)
    spans = (_tidy("".join(words for words, _ in run)) for low, run in runs if low)
    return tuple(dict.fromkeys(span for span in spans if any(map(str.isalnum, span))))


def merged(found: Sequence[Sequence[Hit]], most: int) -> tuple[Passage, ...]:
    """The first `most` passages of several searches: the best of each, then the second of each, and so on."""
    return tuple(dict.fromkeys(_ranks(found)))[:most]


def _parted(before: str, after: str) -> bool:
    """Whether a word ends between two characters."""
    return before.isspace() or after.isspace() or max(before, after) >= _WIDE


def _ranks(found: Sequence[Sequence[Hit]]) -> Iterator[Passage]:
    for rank in zip_longest(*found):
        yield from (hit.passage for hit in rank if hit is not None)


def _tidy(text: str) -> str:
    return " ".join(text.replace("\ufffd", " ").split())
