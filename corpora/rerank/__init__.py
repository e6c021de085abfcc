"""Rerankers: cross-encoders, embedders and BM25, chosen by the name in a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragc.core.progress import Progress
from ragc.errors import UnknownName

if TYPE_CHECKING:
    from ragc.corpora.rerank.base import Reranker

NAMES = ("bm25", "embed", "embed:MODEL", "cross:MODEL")
"""What `make` knows; MODEL is a folder or an id."""


def make(name: str, *, progress: Progress | None = None) -> Reranker:
    """The reranker called `name`: `bm25`, `embed:MODEL`, or `cross:MODEL`.

    MODEL is a folder with a model in ONNX form, or a model of sentence-transformers by folder or id. Of
    embedders there is a default, which `embed` alone means; of cross-encoders there is none. `progress` is
    notified of the bytes of a download. Raises UnknownName, and UsageError when the folder lacks something or
    a library is not installed.
    """
    kind, colon, model = name.strip().partition(":")
    model = model.strip()
    if (kind, colon) == ("bm25", ""):
        from ragc.corpora.rerank.embedding import Bm25Reranker

        return Bm25Reranker()
    if kind == "embed":
        from ragc.corpora import embed
        from ragc.corpora.embed.base import DEFAULT
        from ragc.corpora.rerank.embedding import EmbedReranker

        return EmbedReranker(embed.make(model or DEFAULT, progress=progress))
    if kind == "cross":
        from ragc.corpora.rerank.cross_encoder import cross

        return cross(model)
    raise UnknownName("reranker", name, NAMES)
