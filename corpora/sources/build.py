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
from ragc.corpora.sources.base import Source, SourceInputs, maker
from ragc.corpora.sources.titles import TitleSource
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
    # As written, because the options model would change the fingerprint.
    left = dict(options)
    shared = {"titles", "half", "rerank", "rerank_pool"} & record.options.model_fields.keys() & options.keys()
    taken = {name: left.pop(name) for name in shared}
    if corpus is None and record.corpus == "passages":
        raise UsageError("A source of this kind searches a corpus; name one.")
    if corpus is not None and taken.get("half"):
        corpus = half_of(corpus, taken["half"])
    source = maker(record)(SourceInputs(cast(Corpus, corpus), store, recording, resolve), left)
    if taken.get("titles"):
        source = TitleSource(source)
    if reranker := taken.get("rerank"):
        # Stripped before resolving, so that the trusted path and the read path are the same.
        name, model = split(reranker)
        if model and resolve(model).exists():
            reranker = f"{name}:{resolve(model)}"
        source = RerankedSource(source, make(reranker), pool=taken.get("rerank_pool") or POOL)
    return source
