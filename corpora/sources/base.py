"""The protocol of everything that can be searched, and the question for which it is."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from ragc.records import Hit, Passage, Question

current_question: ContextVar[Question | None] = ContextVar("current_question", default=None)
"""The question being answered in this context; None outside of one.

Programs set it once per question; tasks that are started meanwhile inherit it.
"""


class Source(Protocol):
    """Something that ranks passages for a query.

    `fingerprint` identifies content and settings: equal fingerprints give equal results.
    `__deepcopy__` returns the source itself.
    """

    kind: str
    fingerprint: str

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits, best first, ties broken by passage id; `()` when nothing matches.

        Raises SourceError when the search could not be made.
        """
        ...

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """`n` passages drawn uniformly without replacement, none with an id or parent id in `exclude`.

        The same arguments give the same passages. Fewer when the source holds fewer.
        """
        ...

    def rechunk(self, chunk_size: int, overlap: float) -> Source:
        """The same content cut into chunks of at most `chunk_size` tokens.

        `overlap` is the share of a chunk repeated in the next, 0 <= overlap < 1.
        Sources whose passages are not theirs to cut return themselves.
        """
        ...
