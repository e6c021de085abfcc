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

from ragc.corpora.sources.base import Source, SourceWrapper, best_first
from ragc.records import Hit

VERSION = 1
"""Increased whenever the same query and title would give another factor."""

POOL = 50
"""The number of hits that the rules are applied to, as in PrefRAG."""


def title_factor(query: str, title: str) -> float:
    """Returns the score factor of a passage called `title`, 1 to 1.5; 1 without a title."""
    phrase, title = query.strip(), title.strip()
    core = title.partition("(")[0].strip() or title
    names = {phrase, phrase[4:] if phrase[:4] in ("The ", "the ") else phrase}
    rules = [
        rule
        for name, exact, same, inside in ((title, 1.5, 1.2, 1.1), (core, 1.2, 1.1, 1.05))
        for rule in (
            (name in names, exact),
            (name.lower() in {other.lower() for other in names}, same),
            (name.lower() in phrase.lower(), inside),
        )
    ]
    return next((factor for applies, factor in rules if applies and title), 1.0)


class TitleSource(SourceWrapper):
    """The hits of `inner`, reordered by the title rules: the best `k` of its first `POOL`.

    A score of 0 or below is divided by the factor, so that it rises too.
    """

    def __init__(self, inner: Source) -> None:
        super().__init__(inner, "titles", VERSION, POOL)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first, ties by passage id. Raises SourceError as `inner` does."""
        raised = []
        for hit in await self.inner.search(query, max(k, POOL)) if k > 0 else ():
            factor = title_factor(query, hit.passage.title)
            score = hit.score * factor if hit.score > 0 else hit.score / factor
            raised.append(Hit(hit.passage, score, hit.source))
        return best_first(raised, k)
