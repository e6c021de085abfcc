"""The protocol of search sources, and the context variable of the current question."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

from ragc.records import Hit, Passage, Question

current_question: ContextVar[Question | None] = ContextVar("current_question", default=None)
"""The question being answered in this context; None outside of one.

Programs set it once a question; tasks started meanwhile inherit it.
"""


class Source(Protocol):
    """Ranks passages for a query.

    `fingerprint` identifies content and settings: equal fingerprints give equal results. `__deepcopy__`
    returns the source itself.
    """

    kind: str
    fingerprint: str

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits, best first, ties broken by passage id; `()` if nothing matches.

        Raises SourceError if the search fails.
        """
        ...

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """`n` passages drawn uniformly without replacement, none with an id or parent id in `exclude`.

        The same arguments give the same passages. Fewer if the source has fewer.
        """
        ...

    def rechunk(self, chunk_size: int, overlap: float) -> Source:
        """The same content in chunks of at most `chunk_size` tokens.

        `overlap` is the share of a chunk repeated in the next, 0 <= overlap < 1. Sources that cannot cut
        their passages return themselves.
        """
        ...


def parts_of(source: Source, ids: Sequence[str]) -> tuple[Passage, ...]:
    """The passages with these `ids` as `source` cut them, in order; those that it does not hold are left out.

    Nothing for a source that holds no passages, such as the web, or is somebody's own without this method.
    """
    parts = getattr(source, "parts_of", None)
    return tuple(parts(ids)) if parts else ()
