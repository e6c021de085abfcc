"""Builds sources from their kind and options in a recipe.

A table's `options` are the keyword arguments of its kind; the record of the kind (`ragc.corpora.SOURCES`)
checks them and builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ragc.corpora import SOURCES
from ragc.corpora.rerank import POOL, RerankedSource, make, split
from ragc.corpora.sources.base import Source, SourceInputs
from ragc.corpora.sources.options import CorpusHalfOptions, RerankOptions, TitleOptions
from ragc.corpora.sources.titles import TitleSource
from ragc.corpora.storage.corpus import Corpus, half_of
from ragc.errors import UsageError
from ragc.store.calls import CallStore


def build(
    kind: str,
    options: Mapping[str, Any],
    corpus: Corpus | None,
    store: CallStore,
    *,
    recording: str = "",
    resolve: Callable[[str], Path] = Path,
) -> Source:
    """Builds the source of `kind`; kinds that search a corpus need `corpus`. Nothing is sent or indexed yet.

    `recording` is the file of a kind that reads one itself; `resolve` resolves that path and those in
    `options`. Raises UsageError for an unknown option or one out of range, or a missing library.
    """
    record = SOURCES.get(kind)
    if corpus is None and record.corpus == "passages":
        raise UsageError("A source of this kind searches a corpus; name one.")
    table = record.options.of(options)
    shared = [model for model in (CorpusHalfOptions, TitleOptions, RerankOptions) if isinstance(table, model)]
    inner = {key: options[key] for key in options if not any(key in model.model_fields for model in shared)}
    if corpus is not None and isinstance(table, CorpusHalfOptions) and table.half:
        corpus = half_of(corpus, table.half)
    source = record.build(SourceInputs(cast(Corpus, corpus), store, recording, resolve), inner)
    if isinstance(table, TitleOptions) and table.titles:
        source = TitleSource(source)
    if isinstance(table, RerankOptions) and table.rerank:
        # Stripped before resolving, so that the trusted path and the read path are the same.
        name, model = split(table.rerank)
        is_local = model and resolve(model).exists()
        reranker = make(f"{name}:{resolve(model)}" if is_local else table.rerank)
        source = RerankedSource(source, reranker, pool=table.rerank_pool or POOL)
    return source
