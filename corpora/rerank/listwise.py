"""Reranking by whoever puts a short list in order: windows over a long one, from its end to its top.

    worst ◄──────────────────────────── best
              [ window ]                        1. the last `size` passages are ordered
                    [ window ]                  2. `step` passages further up, the best come along
                          [ window ]            3. … until the top is in order

Method: the sliding windows of RankGPT (Sun et al. 2023). Good passages are carried along from window to
window. For n > size passages that is 1 + ceil((n - size) / step) calls, one after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from ragc.core import counters
from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.records import Passage

VERSION = 1
"""Raised whenever the same rankings of windows would give another order."""

SIZE, STEP = 20, 10

Rank = Callable[[str, Sequence[Passage]], Awaitable[Sequence[int]]]
"""Query and passages to the numbers of the passages, counted from 1, best first."""


def windows(total: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """(start, end) of every window over `total` passages, from the bottom up; none for fewer than two.

    Needs `1 <= step < size`: then the last window reaches the top.
    """
    end = total
    while end > 1:
        start = max(0, end - size)
        yield start, end
        end = end - step if start else 0


def permutation(numbers: Sequence[int], n: int) -> list[int]:
    """All of 1..n: first those of `numbers` that are among them, each once, then the rest in old order."""
    named = [number for number in dict.fromkeys(numbers) if 1 <= number <= n]
    rest = set(range(1, n + 1)).difference(named)
    return named + sorted(rest)


class ListwiseReranker:
    """Orders passages by calling `rank` for each window of `size`, moved up by `step`.

    `fingerprint` is that of whatever `rank` calls, model and prompt and settings; `name` is for people.
    `rank` is awaited; what it raises ends the search. Numbers that name no passage are dropped and
    counted, repeated ones are dropped, and passages it does not name follow in their old order. Raises
    UsageError unless `1 <= step < size`, so that windows overlap.
    """

    def __init__(
        self, rank: Rank, *, fingerprint: str, name: str = "listwise", size: int = SIZE, step: int = STEP
    ) -> None:
        if not 1 <= step < size:
            raise UsageError(
                "Listwise reranking needs windows that overlap, 1 <= step < size, "
                f"got size = {size} and step = {step}."
            )
        self.size, self.step, self.name, self._rank = size, step, name, rank
        self.fingerprint = digest(["rerank-listwise", VERSION, size, step, fingerprint])

    def __deepcopy__(self, memo: object) -> ListwiseReranker:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """1 / place of each passage in the new order; the order in which they are given counts as the old."""
        order = list(range(len(passages)))
        for start, end in windows(len(order), self.size, self.step):
            window = order[start:end]
            numbers = list(await self._rank(query, [passages[at] for at in window]))
            counters.count(dropped=sum(not 1 <= number <= len(window) for number in set(numbers)))
            order[start:end] = [window[number - 1] for number in permutation(numbers, len(window))]
        places = {at: place for place, at in enumerate(order, 1)}
        return [1 / places[at] for at in range(len(passages))]
