"""Similarity of texts: by an embedder if a source has one, else by their words.

Methods that rank with an encoder of their own (SlimPLM, SKR, ITER-RETGEN) use that of a dense source, of a
hybrid one, or of one that is reranked by an embedder; a recipe says which model that is. If no source has
one, BM25 replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ragc.core import counters
from ragc.corpora.models import Bm25Reranker, EmbedReranker
from ragc.errors import SourceError
from ragc.programs.trace import Note, record

if TYPE_CHECKING:
    from ragc.programs.runtime import Runtime
    from ragc.records import Passage

_HOLDERS = ("inner", "reranker", "dense")
"""Where a source may hold another one, or what ranks its hits."""

_rerankers: WeakKeyDictionary[Any, EmbedReranker] = WeakKeyDictionary()


def embedder_in(source: Any) -> Any:
    """Returns the embedder of `source`, or of one inside it, or None."""
    if source is None:
        return None
    own = getattr(source, "embedder", None)
    inner = (embedder_in(getattr(source, name, None)) for name in _HOLDERS)
    return own if own is not None else next((one for one in inner if one is not None), None)


class Likeness:
    """Scores passages by their similarity to a text, by the knob `encoder`.

    `embeds` says whether an embedder scores. Programs on the same embedder share its vectors.
    """

    def __init__(self, runtime: Runtime, encoder: str) -> None:
        held = (embedder_in(source) for source in runtime.sources.values()) if encoder == "auto" else ()
        embedder = next((one for one in held if one is not None), None)
        self._by_words = Bm25Reranker()
        self._by_meaning = None if embedder is None else _shared(embedder)
        self.embeds = embedder is not None
        self.name = f"by {embedder.model}" if embedder is not None else "by BM25 in the place of an encoder"

    def __deepcopy__(self, memo: object) -> Likeness:
        return self

    async def scores(self, text: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns a score for each passage, in order; by words if the embedder fails, noted and counted."""
        if self._by_meaning is not None:
            try:
                return await self._by_meaning.scores(text, passages)
            except SourceError as error:
                counters.count(failed_searches=1)
                record(Note("encoder", f"failed, BM25 in its place: {error}"))
        return await self._by_words.scores(text, passages)


def _shared(embedder: Any) -> EmbedReranker:
    if embedder not in _rerankers:
        _rerankers[embedder] = EmbedReranker(embedder)
    return _rerankers[embedder]
