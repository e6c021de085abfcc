"""RankGPT: the model puts the retrieved passages in order, window by window, and the best are read.

Paper: RankGPT's sliding windows (Sun et al. 2023) as GGatrieval compares with it, section 4.1. The window
starts at the end of the pool and moves up by `step`; good passages are carried along. For a pool of
n > window that is 1 + ceil((n - window) / step) ranking calls, one after the other, and one that answers.
Differs: the last window always reaches the top, also when the pool is shorter than a window, where the
authors' code ranks nothing; a window that does not fit the context is shown with fewer words of each
passage, and only then without its last passages, which stay where they are; one prompt in place of a
dialogue; a ranking that cannot be read leaves its window as it was. `answer_format` is `short`,
GGatrieval's tables have `cited`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import RankGptKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer
from ragc.signatures.select import RankPassages

MIN_WORDS = 20
"""Passages are not cut below this to make a window fit."""


def windows(total: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each window over `total` passages, from the bottom up; none below two."""
    end = total
    while end > 1:
        start = max(0, end - size)
        yield start, end
        end = end - step if start else 0


def permutation(numbers: Sequence[int], n: int) -> list[int]:
    """Returns all of 1..n: first those of `numbers` among them, each once, then the rest in order."""
    named = [number for number in dict.fromkeys(numbers) if 1 <= number <= n]
    return named + [number for number in range(1, n + 1) if number not in named]


def first_words(text: str, n: int) -> str:
    """Returns the first `n` words of `text`, with the characters between them."""
    ends = [word.end() for word in islice(re.finditer(r"\S+", text), n)]
    return text[: ends[-1]] if ends else ""


def shrink_texts(texts: Sequence[str]) -> list[str]:
    """Returns `texts` with at most half as many words each, `MIN_WORDS` at least; then without the last
    one.
    """
    most = max(len(text.split()) for text in texts)
    if most <= MIN_WORDS:
        return list(texts[:-1])
    return [first_words(text, max(MIN_WORDS, most // 2)) for text in texts]


class RankGpt(RagProgram):
    """One search of the source `local`, a ranking call for each window, one answering call."""

    def __init__(self, runtime: Runtime, knobs: RankGptKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        self.rank = self.predictor(RankPassages, max_tokens=40 + 8 * knobs.window)
        self.answer = self.answer_call(self.reading(ShortAnswer))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Ranks the hits from the bottom up, then answers from the first `k_support`."""
        knobs = self.knobs
        order = [*await self.find("local", question, knobs.rank_pool, source=self.local)]
        spans = list(windows(len(order), knobs.window, knobs.step))
        for start, end in spans:
            order[start:end] = await self._rank_window(question, order[start:end])
        prediction = await self.answer_from(self.answer, question, order[: knobs.k_support])
        tallies = {"windows": len(spans), "ranked": len(order)}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    async def _rank_window(self, question: str, window: list[Passage]) -> list[Passage]:
        """Returns `window` in the model's order; unchanged if the reply is unreadable."""
        texts = self._texts(question, window)
        reply = await self.rank.try_call(question=question, passages=texts) if len(texts) > 1 else None
        if reply is None:
            record(Note("window", "order kept"))
            return window
        known = {number for number in reply.order if 1 <= number <= len(texts)}
        counters.count(dropped=len(reply.order) - len(known))
        placed = [window[number - 1] for number in permutation(reply.order, len(texts))]
        return placed + window[len(texts) :]

    def _texts(self, question: str, window: list[Passage]) -> list[str]:
        """Returns the texts shown of the window: all, shortened to fit, else its first passages."""
        whole = [first_words(format_passage(passage), self.knobs.words) for passage in window]
        texts = self.shrink_to_fit(
            self.rank, whole, lambda subset: {"question": question, "passages": subset}, shrink_texts
        )
        if texts != whole:
            words = max((len(text.split()) for text in texts), default=0)
            record(Note("window", f"{len(texts)} of {len(whole)} passages fit, with at most {words} words"))
        return texts
