"""RankGPT: the model puts the retrieved passages in order, window by window, and the best are read.

Paper: RankGPT's sliding windows as GGatrieval's tables use them (METHODS section 6). The window starts
at the end of the pool and moves up by `step`; good passages are carried along. For a pool of n > window
that is 1 + ceil((n - window) / step) ranking calls, one after the other, and one call that answers.
Differs: the last window always reaches the top, also when the pool is shorter than a window, where the
authors' code ranks nothing; a window that does not fit the context is shown with fewer words of each
passage, and only then without its last passages, which stay where they are; one prompt in place of a
dialogue; a ranking that cannot be read leaves its window as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from ragc import counters
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.rankgpt_knobs import RankGptKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.answers import ShortAnswer, with_question
from ragc.signatures.ranking import RankPassages

FEWEST_WORDS = 20
"""A passage is not cut below this to make a window fit."""


def windows(total: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """(start, end) of every window over `total` passages, from the bottom up; none for fewer than two."""
    end = total
    while end > 1:
        start = max(0, end - size)
        yield start, end
        end = end - step if start else 0


def permutation(numbers: Sequence[int], n: int) -> list[int]:
    """All of 1..n: first those of `numbers` that are among them, each once, then the rest in old order."""
    named = [number for number in dict.fromkeys(numbers) if 1 <= number <= n]
    return named + [number for number in range(1, n + 1) if number not in named]


def first_words(text: str, n: int) -> str:
    """`text`, or its first `n` words when it has more."""
    words = text.split()
    return text if len(words) <= n else " ".join(words[:n])


class RankGpt(RagProgram):
    """One search of the source `local`, a ranking call for each window, one answering call."""

    def __init__(self, runtime: Runtime, knobs: RankGptKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = runtime.source("local").rechunked(knobs.chunk_size, knobs.overlap)
        self.rank = self.predictor(RankPassages, max_tokens=40 + 8 * knobs.window)
        self.answer = self.answering(with_question(ShortAnswer, knobs.query_pos))

    def most_calls(self) -> int:
        """One for each window of a full pool, and the answer."""
        return len(list(windows(self.knobs.rank_pool, self.knobs.window, self.knobs.step))) + 1

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Rank what is found from the bottom up, then answer from the first `k_support`."""
        knobs = self.knobs
        hits = await self.search("local", question, knobs.rank_pool, source=self.local)
        order = [hit.passage for hit in hits]
        spans = list(windows(len(order), knobs.window, knobs.step))
        for start, end in spans:
            order[start:end] = await self._ranked(question, order[start:end])
        said = await self.answered(self.answer, question, order[: knobs.k_support])
        tallies = {"windows": len(spans), "ranked": len(order)}
        return dspy.Prediction(answer=said.answer, passages=said.passages, tallies=tallies)

    async def _ranked(self, question: str, window: list[Passage]) -> list[Passage]:
        texts = self._texts(question, window)
        if len(texts) < 2:
            record(Note("window", "its passages do not fit the context, order kept"))
            return window
        try:
            said = await self.rank.acall(question=question, passages=texts)
        except ParseFailure:
            record(Note("window", "the ranking could not be read, order kept"))
            return window
        known = {number for number in said.order if 1 <= number <= len(texts)}
        counters.count(dropped=len(said.order) - len(known))
        placed = [window[number - 1] for number in permutation(said.order, len(texts))]
        return placed + window[len(texts) :]

    def _texts(self, question: str, window: list[Passage]) -> list[str]:
        """What is shown of the window: all of it with as many words as fit, else its first passages."""
        whole, words = [shown(p) for p in window], self.knobs.words
        texts = [first_words(text, words) for text in whole]
        while words > FEWEST_WORDS and not self._fits(question, texts):
            words = max(FEWEST_WORDS, words // 2)
            texts = [first_words(text, words) for text in whole]
        if words < self.knobs.words:
            record(Note("window", f"shown with {words} words of each passage, to fit the context"))
        while texts and not self._fits(question, texts):
            texts.pop()
        counters.count(trimmed=len(window) - len(texts))
        return texts

    def _fits(self, question: str, texts: list[str]) -> bool:
        room = self.runtime.target(self.rank.role).context_tokens
        return self.rank.size(question=question, passages=texts) <= room
