"""Checks what this machine lacks for a recipe: libraries of extras, API keys, a judge.

All problems are reported together, before any work. Nothing is opened, downloaded or sent. Roles and sources
that a program needs are checked with the recipe.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ragc import metrics as known_metrics
from ragc.core import extras
from ragc.core.marks import marked
from ragc.corpora import SOURCES
from ragc.corpora.files.records import is_address
from ragc.errors import RecipeError
from ragc.metrics import grader_kinds
from ragc.metrics.base import families
from ragc.recipe import Recipe, SourceSpec
from ragc.targets import TARGETS
from ragc.targets.options import TargetSpec, variables

_ONNX = ("onnxruntime", "tokenizers")


def require(recipe: Recipe, *, targets: bool = True, metrics: bool = True, study: bool = True) -> None:
    """Raises RecipeError with everything that `lacking` finds, one sentence each."""
    if problems := lacking(recipe, targets=targets, metrics=metrics, study=study):
        raise RecipeError("This machine lacks what the recipe needs", problems)


def lacking(
    recipe: Recipe, *, targets: bool = True, metrics: bool = True, study: bool = True
) -> tuple[str, ...]:
    """Yields a sentence for each missing requirement. Parts passed as False are not used and not checked."""
    problems = [*_data(recipe)]
    for name, source in recipe.sources.items():
        problems += _source(f"Source {name!r}", source, recipe)
    for name, target in recipe.target_specs().items() if targets else ():
        problems += _target(f"Target {name!r}", target)
    problems += _metrics(recipe) if metrics else ()
    problems += _study(recipe) if study else ()
    return tuple(dict.fromkeys(problems))


def _data(recipe: Recipe) -> Iterator[str]:
    data = recipe.data
    named = [data.dataset, data.questions, data.corpus, data.train, data.dev, data.test]
    named += [data.cross_domain, data.cross_domain_corpus, *(s.corpus for s in recipe.sources.values())]
    for address in dict.fromkeys(text for text in named if isinstance(text, str) and is_address(text)):
        yield from extras.lacking(f"The data {address!r}", extras.EXTRAS["hub"])
    if data.dataset == "crag":
        yield from extras.lacking("Data set 'crag'", ("markdownify",))


def _source(who: str, spec: SourceSpec, recipe: Recipe) -> Iterator[str]:
    record = SOURCES.get(spec.kind)
    modules = record.modules(spec.options) if record.modules is not None else ()
    yield from extras.lacking(f"{who}, of kind {spec.kind!r},", modules)
    for _, value, mark in marked(record.options, spec.options) if spec.options else ():
        if mark is not None:
            yield from mark.lacking(who, value, recipe.path)


def _target(who: str, spec: TargetSpec) -> Iterator[str]:
    record, variable = TARGETS.get(spec.kind), spec.options.get("api_key_env")
    if isinstance(variable, str) and variable and not os.environ.get(variable, "").strip():
        yield f"{who} needs the environment variable {variable}, named by api_key_env, which is not set"
    for option in ("headers", "query"):
        for name in sorted(variables(spec.options.get(option, {}))):
            if not os.environ.get(name, "").strip():
                yield f"{who} needs the environment variable {name}, named by {option}, which is not set"
    yield from extras.lacking(f"{who}, of kind {spec.kind!r},", record.modules)
    yield from record.lacking(who, spec) if record.lacking is not None else ()


def _metrics(recipe: Recipe) -> Iterator[str]:
    chosen_by = (*recipe.search.objectives, *recipe.search.pick_metrics)
    ids = (*recipe.metrics.report, *(name.removeprefix("-") for name in chosen_by))
    named = [known_metrics.get(name, load=True) for name in dict.fromkeys(ids)]
    pooled = (known_metrics.get(name, load=True) for metric in named for name in metric.pools)
    chosen = tuple(dict.fromkeys((*named, *pooled)))
    for metric in chosen:
        yield from extras.lacking(f"Metric {metric.id!r}", metric.modules)
    settings = recipe.metrics
    graders = grader_kinds(families(chosen))
    for grader in graders if "judge" not in recipe.targets else ():
        asks = grader.asks(settings)
        reading = [metric.id for metric in chosen if metric.reads == grader.family]
        for name in reading if asks == "" else filter(None, [asks]):
            yield f"{name} asks a judge, and there is none; add [targets.judge]"
    kind, _, model = settings.entailment.partition(":")
    if kind == "nli" and any(grader.entails for grader in graders):
        in_onnx = any((recipe.path(model) / name).is_file() for name in ("model.onnx", "onnx/model.onnx"))
        modules = _ONNX if in_onnx else extras.EXTRAS["nli"]
        yield from extras.lacking(f"entailment = {settings.entailment!r}", modules)


def _study(recipe: Recipe) -> Iterator[str]:
    from ragc.task.study_address import storage_address

    if storage_address(recipe.study).startswith("postgresql+psycopg:"):
        yield from extras.lacking("A storage on PostgreSQL", ("psycopg",))
