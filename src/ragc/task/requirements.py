"""Checks what this machine lacks for a recipe: libraries of extras, API keys, a judge.

All problems are reported together, before any work. Nothing is opened, downloaded or sent. Roles and sources
that a program needs are checked with the recipe.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ragc import metrics as known_metrics
from ragc.core import extras
from ragc.corpora.embed.base import ALIASES, DEFAULT
from ragc.corpora.files.records import is_address
from ragc.errors import RecipeError
from ragc.metrics import citations, crag, judge, retrieval, rouge, upper_bound
from ragc.metrics.base import families
from ragc.recipe import GridSpec, Recipe, SourceSpec
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.targets.base import TargetSpec
from ragc.task.addresses import storage_address, store_address

_DENSE = extras.EXTRAS["dense"]
_ONNX = ("onnxruntime", "tokenizers")
_MODELS, _PACKAGE = "sentence_transformers", "sentence-transformers"
_SOURCES = {
    "dense": ("dense", _DENSE),
    "hybrid": ("dense", _DENSE),
    "lucene": ("lucene", extras.EXTRAS["lucene"]),
    "web": ("web", ("ddgs",)),
    "api": ("api", extras.EXTRAS["api"]),
}
"""The extra of each source kind, and its modules that are always needed."""

_METRICS = {
    **{metric.id: ("rouge_score",) for metric in rouge.METRICS},
    "rougeLsum": ("rouge_score", "punkt"),
    "rqrag_f1": ("ftfy",),
}
"""The modules of the extra `metrics` that a metric needs, by its id without what stands before "@"."""
_FAMILIES = {citations.CITATIONS: ("punkt",)}
"""Those that the grader of a family needs."""


def require(recipe: Recipe, *, targets: bool = True, metrics: bool = True, study: bool = True) -> None:
    """Raises RecipeError with everything that `lacking` finds, one sentence each."""
    if problems := lacking(recipe, targets=targets, metrics=metrics, study=study):
        raise RecipeError("This machine lacks what the recipe needs", problems)


def lacking(
    recipe: Recipe, *, targets: bool = True, metrics: bool = True, study: bool = True, grid: bool = False
) -> tuple[str, ...]:
    """A sentence for each missing requirement. Parts passed as False are not used and not checked.

    `grid` checks what `ragc grid` needs too, where the recipe says what to record.
    """
    problems = [*_data(recipe)]
    for name, source in recipe.sources.items():
        problems += _source(f"Source {name!r}", source)
        problems += _encoders(recipe, source)
    for name, target in recipe.target_specs().items() if targets else ():
        problems += _target(f"Target {name!r}", target)
    problems += _metrics(recipe) if metrics else ()
    problems += _study(recipe) if study else ()
    if grid and recipe.grid != GridSpec():
        problems += _missing("A grid ([grid])", "parquet", extras.EXTRAS["parquet"])
    return tuple(dict.fromkeys(problems))


def _missing(who: str, extra: str, modules: Sequence[str]) -> list[str]:
    absent = extras.missing_modules(modules)
    if not absent:
        return []
    verb = "is" if len(absent) == 1 else "are"
    named = ", ".join(absent)
    return [f"{who} needs {named}, which {verb} not installed; run: {extras.remedy(extra)}"]


def _data(recipe: Recipe) -> Iterator[str]:
    data = recipe.data
    named = [data.dataset, data.questions, data.corpus, data.train, data.dev, data.test]
    named += [data.cross_domain, data.cross_domain_corpus, *(s.corpus for s in recipe.sources.values())]
    for address in dict.fromkeys(text for text in named if isinstance(text, str) and is_address(text)):
        yield from _missing(f"The data {address!r}", "hub", extras.EXTRAS["hub"])
    if data.dataset == "crag":
        yield from _missing("Data set 'crag'", "web", ("trafilatura",))


def _source(who: str, spec: SourceSpec) -> Iterator[str]:
    extra, modules = _SOURCES.get(spec.kind, ("", ()))
    if spec.kind == "web" and spec.options.get("pages"):
        modules = extras.EXTRAS["web"]
    yield from _missing(f"{who}, of kind {spec.kind!r},", extra, modules)
    rerank = str(spec.options.get("rerank", ""))
    if rerank.partition(":")[::2] in (("embed", ""), ("embed", "minilm")):
        yield from _missing(f"{who}, reranked by {rerank!r},", "dense", _ONNX)


def _encoders(recipe: Recipe, spec: SourceSpec) -> Iterator[str]:
    """The models of a source that sentence-transformers runs, where it is not installed."""
    dense = spec.options if spec.kind == "dense" else spec.options.get("dense") or {}
    kind, _, model = (part.strip() for part in str(spec.options.get("rerank") or "").partition(":"))
    named = [("embedder", str(dense.get("model") or "")), ("embedder" if kind == "embed" else kind, model)]
    for what, name in named:
        full = ALIASES.get(name, name)
        own = full.removeprefix("sentence-transformers/") == DEFAULT or recipe.path(full).is_dir()
        if what in ("embedder", "cross") and full and not own and not extras.is_installed(_MODELS):
            label = "cross-encoder" if what == "cross" else what
            yield f"The {label} {full!r} needs {_MODELS}, which is not installed; run: pip install {_PACKAGE}"


def _target(who: str, spec: TargetSpec) -> Iterator[str]:
    variable = spec.options.get("api_key_env")
    if spec.kind == "embedded":
        yield from _missing(f"{who}, of kind 'embedded',", "embedded", extras.EXTRAS["embedded"])
    elif isinstance(variable, str) and variable:
        if not os.environ.get(variable, "").strip():
            yield f"{who} needs the environment variable {variable}, named by api_key_env, which is not set"
    elif spec.kind == "hosted":
        from ragc.targets.hosted.preflight import missing_key

        if names := missing_key(spec.model, spec.base_url):
            yield f"{who}, {spec.model}, needs the environment variable {names}, which is not set"
    served_here = spec.options.get("serve") and not spec.options.get("python")
    if spec.kind == "vllm" and (spec.options.get("offline") or served_here):
        yield from _missing(f"{who}, which runs vLLM here,", "vllm", extras.EXTRAS["vllm"])


def _metrics(recipe: Recipe) -> Iterator[str]:
    ids = (*recipe.report, *(name.removeprefix("-") for name in recipe.search.objectives))
    named = [known_metrics.get(name) for name in dict.fromkeys(ids)]
    pooled = (known_metrics.get(name) for metric in named for name in metric.pools)
    metric_ids = tuple(dict.fromkeys((*named, *pooled)))
    for metric in metric_ids:
        scored = metric.id.removeprefix(f"{upper_bound.NAME}@")
        modules = _METRICS.get(scored, _FAMILIES.get(metric.reads, ()))
        yield from _missing(f"Metric {metric.id!r}", "metrics", modules)
        if metric.id.partition("@")[0] in (*retrieval.CUT, "mrr") and not extras.is_installed("pytrec_eval"):
            yield (
                f"Metric {metric.id!r} needs pytrec_eval, which is not installed; "
                "run: pip install pytrec-eval-terrier"
            )
    metric_families, settings = families(metric_ids), recipe.assessing
    cited = citations.CLAIMS in metric_families or citations.CITATIONS in metric_families
    if "judge" not in recipe.targets:
        judged = [metric.id for metric in metric_ids if metric.reads == judge.FAMILY]
        if cited and settings.entailment == "judge":
            judged.append('entailment = "judge"')
        if crag.FAMILY in metric_families and settings.crag_judge in ("ragx", "meta"):
            judged.append(f'crag_judge = "{settings.crag_judge}"')
        for name in judged:
            yield f"{name} asks a judge, and there is none; add [targets.judge]"
    kind, _, model = settings.entailment.partition(":")
    if cited and kind == "nli":
        in_onnx = any((recipe.path(model) / name).is_file() for name in ("model.onnx", "onnx/model.onnx"))
        extra, modules = ("dense", _ONNX) if in_onnx else ("nli", extras.EXTRAS["nli"])
        yield from _missing(f"entailment = {settings.entailment!r}", extra, modules)


def _study(recipe: Recipe) -> Iterator[str]:
    store, storage = store_address(recipe.study), storage_address(recipe.study)
    if recipe.study.workers:
        if not (store and storage) or recipe.search.optimizer != OWN_OPTIMIZER:
            return  # refused later for that reason
        yield from _missing("A study with workers", "cluster", extras.EXTRAS["ray"])
    if store:
        yield from _missing("A store on Redis", "redis", extras.EXTRAS["redis"])
    if storage.startswith("postgresql+psycopg:"):
        yield from _missing("A storage on PostgreSQL", "postgres", extras.EXTRAS["postgres"])
