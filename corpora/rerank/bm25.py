"""`bm25`: reranks by BM25 with the hits as the corpus."""

from __future__ import annotations

from collections.abc import Sequence

from ragc.core.digest import digest
from ragc.corpora.rerank.base import RerankerKind
from ragc.corpora.sources.bm25.source import K1, B, bm25_scores
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.errors import UsageError
from ragc.records import Passage

VERSION = 1
"""Increased whenever the same query and passages would get other scores."""


class Bm25Reranker:
    """The BM25 score of each passage with the reranked passages as the corpus; 0 or more.

    Raises UsageError for a setting out of range.
    """

    def __init__(self, *, k1: float = K1, b: float = B) -> None:
        if not (0 <= k1 < float("inf") and 0 <= b <= 1):
            raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, got k1 = {k1} and b = {b}.")
        self.k1, self.b = k1, b
        self.name = "bm25"
        self.fingerprint = digest(["rerank-bm25", VERSION, ANALYZER, float(k1), float(b)])

    def __deepcopy__(self, memo: object) -> Bm25Reranker:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the score of each passage (title and text together), with these passages as the corpus."""
        documents = [passage_terms(passage) for passage in passages]
        return bm25_scores(query_terms(query), documents, self.k1, self.b)


KIND = RerankerKind("bm25", ("bm25",), lambda model, progress: Bm25Reranker())
