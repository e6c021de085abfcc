"""Rerankers: cross-encoders, embedders and BM25, chosen by the name in a recipe: KIND or KIND:MODEL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ragc.core import extras
from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.plugins import Registry
from ragc.core.progress import Progress
from ragc.corpora import embed
from ragc.corpora.rerank.base import Reranker, RerankerKind
from ragc.errors import UnknownName

_IN = "ragc.corpora.rerank.kinds"

RERANKERS = Registry(
    "ragc.rerankers",
    "reranker",
    RerankerKind,
    {
        "bm25": (f"{_IN}:BM25", "the BM25 score among the hits"),
        "embed": (f"{_IN}:EMBED", "likeness by an embedder, embed:MODEL, or by the default one"),
        "cross": (f"{_IN}:CROSS", "a cross-encoder, cross:MODEL"),
    },
)
"""The kinds of rerankers."""


def make(name: str, *, progress: Progress | None = None) -> Reranker:
    """Returns the reranker called `name`: `bm25`, `embed:MODEL`, or `cross:MODEL`.

    MODEL is a folder with a model in ONNX form, or a model of sentence-transformers by folder or id. Of
    embedders there is a default, which `embed` alone means; of cross-encoders there is none. `progress` is
    notified of the bytes of a download. Raises UnknownName, and UsageError when the folder lacks something or
    a library is not installed.
    """
    kind, model = split(name)
    record = RERANKERS.get(kind) if RERANKERS.is_known(kind) else None
    if record is None or (":" in name and f"{kind}:MODEL" not in record.names):
        raise UnknownName("reranker", name, [form for id in RERANKERS for form in RERANKERS.get(id).names])
    return record.build(model, progress)


def split(name: str) -> tuple[str, str]:
    """Returns the kind and the model in the name of a reranker, stripped."""
    kind, _, model = name.partition(":")
    return kind.strip(), model.strip()


class _RerankerMark(Mark):
    """For an option that names a reranker."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the model that is read, and another package's code that is run."""
        kind, model = split(str(value))
        if kind not in RERANKERS and RERANKERS.is_known(kind):
            yield RequestedAccess("runs", keys, value, "imports the package that adds this reranker")
        if kind == "embed" and model:
            yield from (replace(access, value=value) for access in embed.EMBEDDER.accesses(keys, model))
        elif ":" in str(value):
            yield RequestedAccess("reads", keys, value, "a model", path=model, model="onnx")

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields the libraries that the model of the reranker needs and that are not installed."""
        kind, model = split(str(value or ""))
        record, who = RERANKERS.loaded(kind), f"{who}, reranked by {value!r},"
        if kind == "embed":
            yield from embed.EmbedderMark().lacking(who, model, resolve)
        elif record is not None and model and not resolve(model).is_dir():
            yield from extras.lacking(who, record.modules)


RERANKER = _RerankerMark()
