"""`given`: the passages that come with a question, as in reading comprehension.

Results depend on the question being answered (`current_question`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ragc.core.digest import digest
from ragc.corpora.sources.base import SourceKind, current_question
from ragc.corpora.sources.bm25 import bm25_scores
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.options import Bm25Parameters, RerankOptions
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.corpora.storage.corpus import Corpus
from ragc.errors import SourceError
from ragc.records import Hit, Passage


class GivenOptions(Bm25Parameters, RerankOptions):
    """Options of a source of kind `given`."""


class GivenSource(ChunkedSource):
    """Ranks those of `passages` that the current question names in `context_ids`.

    All of them are found for any query: ordered by BM25 with them as the corpus, ties, such as scores of 0,
    in the given order. Passages are cut to `chunk_size` tokens if that is set. Raises DataError for no
    passages or duplicate ids, UsageError for a setting out of range.
    """

    kind, Options = "given", Bm25Parameters

    def __init__(self, passages: Corpus | Iterable[Passage], **options: Any) -> None:
        super().__init__(passages, **options)
        k1, b = self.options.k1, self.options.b
        self.fingerprint = digest([self.kind, self.corpus.fingerprint, k1, b, ANALYZER, self.cutting])
        self._chunks_of = cache(lambda name: self.parts_of((name,)))
        self._terms_of = cache(passage_terms)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` of the current question's own passages, best first.

        Raises SourceError if no question is being answered, if it has no passages, or if one of them is not
        in the corpus.
        """
        context = [part for name in self._context_ids() for part in self._chunks_of(name)]
        terms = [self._terms_of(part) for part in context]
        scores = bm25_scores(query_terms(query), terms, self.options.k1, self.options.b)
        hits = sorted(map(Hit, context, scores), key=lambda hit: -hit.score)
        return tuple(hits[: max(k, 0)])

    def _context_ids(self) -> tuple[str, ...]:
        question = current_question.get()
        if question is None:
            raise SourceError("A source of kind 'given' was searched while no question was being answered.")
        label = f"question {question.id!r}" if question.id else f"the question {question.question!r}"
        if not question.context_ids:
            raise SourceError(
                f"A source of kind 'given' finds the passages that come with a question, and {label} has no "
                "context_ids. Use a source of kind 'bm25' for it."
            )
        if lost := [name for name in question.context_ids if self.corpus.find(name) is None]:
            raise SourceError(
                f"Passage {lost[0]!r} comes with {label}, and the corpus of its source of kind 'given' "
                "does not hold it."
            )
        return tuple(dict.fromkeys(question.context_ids))


KIND = SourceKind(
    "given",
    GivenOptions,
    lambda inputs, options: GivenSource(inputs.passages, **options),
    corpus="passages",
    per_question=True,
)
