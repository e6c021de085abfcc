"""Cuts passages into chunks of a bounded number of tokens, at the best available boundary."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from ragc.corpora.chunking import tokens
from ragc.records import Passage

VERSION = 1
"""Increased whenever the same arguments would give other chunks."""

_SENTENCE = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’]*+")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"(?<!\S)\S")


def chunk(passage: Passage, size: int, overlap: float = 0.0) -> tuple[Passage, ...]:
    """Cuts `passage`, which has more than `size` tokens, into chunks of at most `size`, in reading order.

    Chunk n has the id `parent#n`, the title of the passage, and a `start` with
    `passage.text[start : start + len(text)] == text`; `start` grows from chunk to chunk. Only white space
    lies between chunks and around them.

    A chunk ends at the last end of a paragraph, else of a line, else of a sentence, that leaves it at least
    half full; else after a whole word; else after a whole character. A single character of more than `size`
    tokens (four at most) is a chunk of its own, the only case above `size`.

    The next chunk repeats at most `overlap * size` tokens of the previous one, from the start of a word if
    there is one.
    """
    text = passage.text
    return tuple(
        replace(passage, id=f"{passage.id}#{n}", text=text[start:end], start=start)
        for n, (start, end) in enumerate(Cutter(text, size, int(overlap * size)).spans())
    )


class Cutter:
    """Computes where to cut one text; its tokens and boundaries are computed once."""

    def __init__(self, text: str, size: int, repeated: int) -> None:
        self.text, self.size, self.repeated = text, size, repeated
        self.length = len(text.rstrip())
        self.starts = tokens.starts(text)
        gaps = [(m.start(), m.group().count("\n")) for m in _SPACE.finditer(text)]
        self.spaces = [at for at, _ in gaps]
        self.ends = (
            [at for at, lines in gaps if lines > 1],
            [at for at, lines in gaps if lines],
            [m.end() for m in _SENTENCE.finditer(text)],
        )
        self.words = [m.start() for m in _WORD.finditer(text)]

    def spans(self) -> list[tuple[int, int]]:
        """Returns the first and last-plus-one character of every chunk; one empty span for a blank text."""
        spans: list[tuple[int, int]] = []
        start, done = self._skip(0), 0
        while done < self.length:
            if end := self._end(start, done):
                spans.append((start, end))
                start, done = self._next(start, end), end
            else:  # the repeated text leaves no space for new text
                start = self._skip(done)
        return spans or [(0, 0)]

    def _end(self, start: int, done: int) -> int:
        """Returns the end of the chunk from `start`, after `done`; 0 if nothing after `done` fits."""
        first = bisect_left(self.starts, start)
        if first == len(self.starts) or self.starts[first] > start:
            first -= 1  # the token begins in the white space before
        budget = self.size
        while budget > 0:
            limit = self.starts[first + budget] if first + budget < len(self.starts) else self.length
            end = self._boundary(start, done, min(limit, self.length))
            if end <= max(start, done) or self.text[done:end].isspace():
                break
            if tokens.count(self.text[start:end]) <= self.size:
                return end
            # Cut out of its text, a chunk can have more tokens than it had there.
            budget = min(budget, bisect_left(self.starts, end) - first) - 1
        return start + 1 if start >= done else 0

    def _boundary(self, start: int, done: int, limit: int) -> int:
        """Returns the best end after `start` and `done`, at most `limit`; `limit` if there is no boundary."""
        if limit == self.length:
            return limit
        half = max(done, start + (limit - start) // 2)
        for ends in self.ends:
            if end := last_between(ends, half, limit):
                return end
        return last_between(self.spaces, max(start, done), limit) or limit

    def _next(self, start: int, end: int) -> int:
        """Returns the start of the chunk after (start, end): before `end` if text is repeated."""
        if not self.repeated:
            return self._skip(end)
        at = bisect_left(self.starts, end)
        inside = self.starts[max(0, at - self.repeated) : at]
        low = max(start + 1, inside[0])
        words = self.words[bisect_left(self.words, low) : bisect_left(self.words, end)]
        for position in words or inside:
            if position >= low and tokens.count(self.text[position:end]) <= self.repeated:
                return position
        return self._skip(end)

    def _skip(self, start: int) -> int:
        """Returns the first character from `start` on that is not white space."""
        match = _SPACE.match(self.text, start)
        return match.end() if match else start


def last_between(places: Sequence[int], low: int, high: int) -> int:
    """Returns the last of `places` in (low, high], 0 when there is none."""
    at = bisect_right(places, high) - 1
    return places[at] if at >= 0 and places[at] > low else 0
