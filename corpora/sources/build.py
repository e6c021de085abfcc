"""Builds sources from their kind and options in a recipe.

A table's `options` are the keyword arguments of its kind; `ragc.corpora.sources.options` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc import corpora
from ragc.corpora import embed, rerank
from ragc.corpora.embed.base import DEFAULT
from ragc.corpora.rerank.base import POOL, RerankedSource, Reranker
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.given import GivenSource
from ragc.corpora.sources.options import OPTIONS
from ragc.corpora.sources.title_rules import TitleSource
from ragc.corpora.storage.corpus import Corpus, half_of
from ragc.errors import UnknownName, UsageError
from ragc.store.call_store import CallStore

Resolve = Callable[[str], Path]
"""Resolves a path written by the user."""

SEARCHES_PASSAGES = frozenset({"bm25", "given", "lucene", "dense", "hybrid"})
"""The kinds that search the passages of a corpus; the others have their own passages."""


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

    `recording` is the file of a source of kind `recorded`; `resolve` resolves that path and those in
    `options`. Raises UsageError for an unknown option or one out of range, or a missing library.
    """
    if kind not in _MAKERS:
        raise UnknownName("source kind", kind, [entry.id for entry in corpora.SOURCES])
    OPTIONS[kind].of(options)
    options = dict(options)  # as written, because the options model would change the fingerprint
    titles, half = options.pop("titles", False), options.pop("half", "")
    if half and corpus is not None:
        corpus = half_of(corpus, half)
    reranker, pool = _reranker(resolve, options)
    source: Source = _MAKERS[kind](_Inputs(corpus, store, recording, resolve), options)
    source = TitleSource(source) if titles else source
    return source if reranker is None else RerankedSource(source, reranker, pool=pool)


def _reranker(resolve: Resolve, options: dict[str, Any]) -> tuple[Reranker | None, int]:
    """The reranker named by `rerank` and the size of its pool; both options are removed from `options`."""
    name, pool = options.pop("rerank", None), options.pop("rerank_pool", None)
    if name is None:
        return None, POOL
    # Stripped before resolving, so that the trusted path and the read path are the same.
    kind, _, model = (part.strip() for part in name.partition(":"))
    if model and resolve(model).exists():
        name = f"{kind}:{resolve(model)}"
    return rerank.make(name), POOL if pool is None else pool


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of a source beside its options."""

    corpus: Corpus | None
    store: CallStore
    recording: str
    resolve: Resolve

    @property
    def passages(self) -> Corpus:
        """The corpus of a source that searches one."""
        if self.corpus is None:
            raise UsageError("A source of this kind searches a corpus; name one.")
        return self.corpus


def _build_bm25(inputs: _Inputs, options: dict[str, Any]) -> Source:
    return Bm25Source(inputs.passages, **options)


def _build_given(inputs: _Inputs, options: dict[str, Any]) -> Source:
    return GivenSource(inputs.passages, **options)


def _build_lucene(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.lucene.source import LuceneSource

    return LuceneSource(inputs.passages, **options)


def _build_dense(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.dense import DenseSource
    from ragc.corpora.sources.faiss_index import IndexSettings

    model = str(options.pop("model", DEFAULT))
    names = ("index", "m", "ef_construction", "ef_search")
    settings = IndexSettings(**{name: options.pop(name) for name in names if name in options})
    folder = inputs.resolve(model)
    embedder = embed.make(str(folder) if folder.is_dir() else model)
    return DenseSource(inputs.passages, embedder, settings=settings, **options)


def _build_hybrid(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.hybrid import HybridSource

    dense, sparse = (dict(options.pop(name, {})) for name in ("dense", "sparse"))
    return HybridSource(_build_dense(inputs, dense), _build_bm25(inputs, sparse), **options)


def _build_web(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.web.engine import Ddgs
    from ragc.corpora.sources.web.source import WebSource

    names: tuple[str, ...] = ("engines", "region", "window")
    engine: Any = Ddgs(**{name: options.pop(name) for name in names if name in options})
    return WebSource(engine, store=inputs.store, **options)


def _build_recorded(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.recorded import RecordedSource

    if not inputs.recording:
        raise UsageError("A source of kind 'recorded' needs its recording; add corpus = \"results.jsonl\".")
    return RecordedSource(inputs.resolve(inputs.recording), **options)


def _build_api(inputs: _Inputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.crag_api.source import ApiSource

    return ApiSource(options.pop("base_url"), **options)


_MAKERS: dict[str, Callable[[_Inputs, dict[str, Any]], Source]] = {
    "bm25": _build_bm25,
    "given": _build_given,
    "lucene": _build_lucene,
    "dense": _build_dense,
    "hybrid": _build_hybrid,
    "web": _build_web,
    "recorded": _build_recorded,
    "api": _build_api,
}
