"""`given`: the passages that come with a question, as in reading comprehension.

Results depend on the question being answered (`current_question`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ragc.corpora.sources.base import SourceKind, current_question
from ragc.corpora.sources.bm25.source import K1, B, bm25_scores, settings_fingerprint
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.options import Bm25Parameters, RerankOptions
from ragc.corpora.sources.terms import passage_terms, query_terms
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

    kind = "given"

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        *,
        k1: float = K1,
        b: float = B,
        chunk_size: int | None = None,
        overlap: float = 0.0,
        chunk_by: str = "text",
    ) -> None:
        super().__init__(passages, chunk_size, overlap, chunk_by, k1=k1, b=b)
        self.fingerprint = settings_fingerprint(self.kind, self.corpus, k1, b, self.cutting)
        self._chunks_of = cache(lambda name: self.parts_of((name,)))
        self._terms_of = cache(passage_terms)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` of the current question's own passages, best first.

        Raises SourceError if no question is being answered, if it has no passages, or if one of them is not
        in the corpus.
        """
        context = [part for name in self._context_ids() for part in self._chunks_of(name)]
        scores = bm25_scores(query_terms(query), [self._terms_of(part) for part in context], **self.settings)
        order = sorted(range(len(context)), key=lambda at: -scores[at])
        return tuple(Hit(context[at], scores[at]) for at in order[: max(k, 0)])

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
