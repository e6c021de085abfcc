"""Builds sources from their kind and options in a recipe.

A table's `options` are the keyword arguments of its kind; the record of the kind (`ragc.corpora.SOURCES`)
checks them and builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ragc.corpora import SOURCES, rerank
from ragc.corpora.rerank.base import POOL, RerankedSource, Reranker
from ragc.corpora.sources.base import Source, SourceInputs, maker
from ragc.corpora.sources.options import CorpusHalfOptions, RerankOptions, TitleOptions
from ragc.corpora.storage.corpus import Corpus, half_of
from ragc.errors import UsageError
from ragc.store.calls import CallStore

Resolve = Callable[[str], Path]
"""Resolves a path written by the user."""


def build(
    kind: str,
    options: Mapping[str, Any],
    corpus: Corpus | None,
    store: CallStore,
    *,
    recording: str = "",
    resolve: Resolve = Path,
) -> Source:
    """Builds the source of `kind`; kinds that search a corpus need `corpus`. Nothing is sent or indexed yet.

    `recording` is the file of a kind that reads one itself; `resolve` resolves that path and those in
    `options`. Raises UsageError for an unknown option or one out of range, or a missing library.
    """
    record = SOURCES.get(kind)
    record.options.of(options)
    options = dict(options)  # as written, because the options model would change the fingerprint
    titles = options.pop("titles", False) if issubclass(record.options, TitleOptions) else False
    half = options.pop("half", "") if issubclass(record.options, CorpusHalfOptions) else ""
    if half and corpus is not None:
        corpus = half_of(corpus, half)
    reranker, pool = None, POOL
    if issubclass(record.options, RerankOptions):
        reranker, pool = _reranker(resolve, options)
    if corpus is None and record.corpus == "passages":
        raise UsageError("A source of this kind searches a corpus; name one.")
    inputs = SourceInputs(cast(Corpus, corpus), store, recording, resolve)
    source = maker(record)(inputs, options)
    if titles:
        from ragc.corpora.sources.title_rules import TitleSource

        source = TitleSource(source)
    return source if reranker is None else RerankedSource(source, reranker, pool=pool)


def _reranker(resolve: Resolve, options: dict[str, Any]) -> tuple[Reranker | None, int]:
    """Returns the reranker named by `rerank` and the size of its pool; both options are removed from
    `options`.
    """
    name, pool = options.pop("rerank", None), options.pop("rerank_pool", None)
    if name is None:
        return None, POOL
    # Stripped before resolving, so that the trusted path and the read path are the same.
    kind, model = rerank.split(name)
    if model and resolve(model).exists():
        name = f"{kind}:{resolve(model)}"
    return rerank.make(name), POOL if pool is None else pool
