"""Sources by kind: from a table of a recipe to what programs search.

What stands in a table's `options` are the keyword arguments of its kind; a wrong one is refused by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragc import corpora
from ragc.corpora import embed, rerank
from ragc.corpora.embed.base import DEFAULT
from ragc.corpora.rerank.base import POOL, RerankedSource, Reranker
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.given import GivenSource
from ragc.corpora.sources.title_rules import TitleSource
from ragc.corpora.storage.corpus import Corpus
from ragc.errors import UnknownName, UsageError, nearest
from ragc.recipe import Recipe, SourceSpec
from ragc.store.call_store import CallStore

_INNER = frozenset({"home", "keep", "progress", "store", "transport", "sleep", "settings", "allow_loopback"})
"""Arguments of sources that are not for recipes."""

_TITLED = frozenset({"bm25", "lucene"})
"""Kinds with the option `titles`: passages rise whose title the query names (PrefRAG's rules)."""

SEARCHES_PASSAGES = frozenset({"bm25", "given", "lucene", "dense", "hybrid"})
"""Kinds that search the passages of a corpus; the others bring their own."""


def build(recipe: Recipe, spec: SourceSpec, corpus: Corpus | None, store: CallStore) -> Source:
    """The source of one table; `corpus` is needed by kinds that search one. Nothing is sent or indexed yet.

    Raises UsageError for an option that is not known or out of range, or a library that is missing.
    """
    if spec.kind not in _MAKERS:
        raise UnknownName("source kind", spec.kind, [entry.id for entry in corpora.SOURCES])
    options = dict(spec.options)
    titles = options.pop("titles", False) if spec.kind in _TITLED else False
    if not isinstance(titles, bool):
        raise UsageError(f"The option 'titles' of a source is true or false, found {titles!r}.")
    reranker, pool = _reranker(recipe, options)
    made: Source = _MAKERS[spec.kind](_Asked(recipe, spec, corpus, store), options)
    made = TitleSource(made) if titles else made
    return made if reranker is None else RerankedSource(made, reranker, pool=pool)


def _reranker(recipe: Recipe, options: dict[str, Any]) -> tuple[Reranker | None, int]:
    """The reranker that `rerank` names and the hits it puts in order; both are taken from `options`."""
    name, pool = options.pop("rerank", None), options.pop("rerank_pool", None)
    if name is None:
        if pool is not None:
            raise UsageError("The option 'rerank_pool' of a source needs the option 'rerank'.")
        return None, POOL
    if not isinstance(name, str):
        raise UsageError(f"The option 'rerank' of a source names a reranker, found {name!r}.")
    if pool is not None and type(pool) is not int:
        raise UsageError(f"The option 'rerank_pool' of a source is a whole number, found {pool!r}.")
    # Spaces go before the folder is looked for: what was allowed by name is what is read.
    kind, _, model = (part.strip() for part in name.partition(":"))
    if model and recipe.path(model).exists():
        name = f"{kind}:{recipe.path(model)}"
    return rerank.make(name), POOL if pool is None else pool


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a source is made from, beside its options."""

    recipe: Recipe
    spec: SourceSpec
    corpus: Corpus | None
    store: CallStore


def _called(make: Callable[..., Any], kind: str, *args: Any, given: Mapping[str, Any], **own: Any) -> Any:
    """`make` with the options `given` and with `own`; options that it does not have are refused."""
    known = [
        name
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in own and name not in _INNER
    ]
    for name in given:
        if name not in known:
            raise UsageError(
                f"A source of kind {kind!r} has no option {name!r}.{nearest(name, known)} "
                f"Known: {', '.join(known) or 'none'}."
            )
    try:
        return make(*args, **given, **own)
    except TypeError as error:
        raise UsageError(f"The options of a source of kind {kind!r} do not fit: {error}.") from error


def _bm25(asked: _Asked, options: dict[str, Any]) -> Any:
    return _called(Bm25Source, "bm25", asked.corpus, given=options)


def _given(asked: _Asked, options: dict[str, Any]) -> Any:
    return _called(GivenSource, "given", asked.corpus, given=options)


def _lucene(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.lucene.source import LuceneSource

    return _called(LuceneSource, "lucene", asked.corpus, given=options)


def _dense(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.dense import DenseSource
    from ragc.corpora.sources.faiss_index import IndexSettings

    model = str(options.pop("model", DEFAULT))
    names = ("index", "m", "ef_construction", "ef_search")
    settings = IndexSettings(**{name: options.pop(name) for name in names if name in options})
    folder = asked.recipe.path(model)
    embedder = embed.make(str(folder) if folder.is_dir() else model)
    return _called(DenseSource, "dense", asked.corpus, embedder, given=options, settings=settings)


def _hybrid(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.hybrid import HybridSource

    parts = {}
    for name, maker in (("dense", _dense), ("sparse", _bm25)):
        part = options.pop(name, {})
        if not isinstance(part, dict):
            raise UsageError(f"The option {name!r} of a hybrid source is a table of options, found {part!r}.")
        parts[name] = maker(asked, dict(part))
    return _called(HybridSource, "hybrid", parts["dense"], parts["sparse"], given=options)


def _web(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.web.engine import Ddgs
    from ragc.corpora.sources.web.source import WebSource

    names: tuple[str, ...] = ("engines", "region", "window")
    engine = _called(Ddgs, "web", given={name: options.pop(name) for name in names if name in options})
    return _called(WebSource, "web", engine, given=options, store=asked.store)


def _recorded(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.recorded import RecordedSource

    if not asked.spec.corpus:
        raise UsageError("A source of kind 'recorded' needs its recording; add corpus = \"results.jsonl\".")
    path = asked.recipe.path(asked.spec.corpus)
    return _called(RecordedSource, "recorded", path, given=options)


def _api(asked: _Asked, options: dict[str, Any]) -> Any:
    from ragc.corpora.sources.crag_api.source import ApiSource

    url = options.pop("base_url", None)
    if not isinstance(url, str):
        raise UsageError(
            "A source of kind 'api' needs the address of the mock API: options.base_url = "
            '"http://127.0.0.1:8000".'
        )
    return _called(ApiSource, "api", url, given=options)


_MAKERS: dict[str, Callable[[_Asked, dict[str, Any]], Any]] = {
    "bm25": _bm25,
    "given": _given,
    "lucene": _lucene,
    "dense": _dense,
    "hybrid": _hybrid,
    "web": _web,
    "recorded": _recorded,
    "api": _api,
}
