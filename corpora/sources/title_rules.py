"""PrefRAG's title rules: passages whose title the query names are ranked higher.

The first matching rule decides the factor of the score:

    1.5    the query is the title, a leading "the" of the query aside
    1.2    it is, in another case
    1.1    the query contains the title, in any case
    1.2    the query is the title without its parenthesis
    1.1    it is, in another case
    1.05   the query contains the title without its parenthesis, in any case

The published code compares the lower-case title of the third rule with the query in its original case, and so
matches few; here the case of both is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.corpora.sources.base import Source, parts_of, with_titles
from ragc.errors import UsageError
from ragc.records import Hit, Passage

VERSION = 1
"""Increased whenever the same query and title would give another factor."""

POOL = 50
"""The number of hits that the rules are applied to, as in PrefRAG."""


def title_factor(query: str, title: str) -> float:
    """Returns the score factor of a passage called `title`, 1 to 1.5; 1 without a title."""
    phrase, title = query.strip(), title.strip()
    if not title:
        return 1.0
    core = title.partition("(")[0].strip() or title
    for name, exact, same, inside in ((title, 1.5, 1.2, 1.1), (core, 1.2, 1.1, 1.05)):
        names = {phrase, phrase[4:] if phrase[:4] in ("The ", "the ") else phrase}
        if name in names:
            return exact
        if name.lower() in {other.lower() for other in names}:
            return same
        if name.lower() in phrase.lower():
            return inside
    return 1.0


class TitleSource:
    """The hits of `source`, reordered by the title rules: the best `k` of its first `pool`.

    A score of 0 or below is divided by the factor, so that it rises too. Raises UsageError unless `pool >=
    1`.
    """

    def __init__(self, source: Source, *, pool: int = POOL) -> None:
        if pool < 1:
            raise UsageError(f"The title rules need a pool of at least 1 hit, got {pool}.")
        self.source, self.pool, self.kind = source, pool, source.kind
        self.fingerprint = digest(["titles", VERSION, pool, source.fingerprint])

    def __deepcopy__(self, memo: object) -> TitleSource:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.source, pool=self.pool)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first, ties by passage id. Raises SourceError as `source` does."""
        if k < 1:
            return ()
        hits = await self.source.search(query, max(k, self.pool))
        raised = [Hit(hit.passage, _boost_score(hit.score, query, hit.passage), hit.source) for hit in hits]
        return tuple(sorted(raised, key=lambda hit: (-hit.score, hit.passage.id))[:k])

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` passages drawn uniformly without replacement, none with an id or parent id in
        `exclude`.
        """
        return self.source.sample(n, seed=seed, exclude=exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the parts from the wrapped source."""
        return parts_of(self.source, ids)

    def rechunk(self, chunk_size: int, overlap: float) -> TitleSource:
        """Returns the same rules over the source in chunks of at most `chunk_size` tokens."""
        return TitleSource(self.source.rechunk(chunk_size, overlap), pool=self.pool)

    def with_titles(self, sections: bool | None, columns: bool | None) -> TitleSource:
        """Returns the same rules over the source with other titles of chunks."""
        return TitleSource(with_titles(self.source, sections, columns), pool=self.pool)


def _boost_score(score: float, query: str, passage: Passage) -> float:
    factor = title_factor(query, passage.title)
    return score * factor if score > 0 else score / factor
