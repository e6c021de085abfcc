"""Every field and option that a recipe may have is classified: plain, or looked at before it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from ragc.compiled import trust
from ragc.core.kinds.marks import HARMLESS, marked
from ragc.core.validation import Model, Options
from ragc.corpora import SOURCES
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.corpora.sources.dense.faiss_index import IndexSettings
from ragc.corpora.sources.dense.source import DenseSource
from ragc.corpora.sources.given.source import GivenSource
from ragc.corpora.sources.hybrid.source import HybridSource
from ragc.corpora.sources.lucene.source import LuceneSource
from ragc.corpora.sources.recorded.source import RecordedSource
from ragc.corpora.sources.web.engine import Ddgs
from ragc.corpora.sources.web.source import WebSource
from ragc.metrics.settings import GraderSettings
from ragc.recipe.base import Recipe
from ragc.recipe.models import Data, SourceSpec, StudySpec
from ragc.targets import TARGETS
from ragc.targets.options import TargetSpec

NOT_OPTIONS = {
    "home",
    "keep",
    "progress",
    "store",
    "transport",
    "sleep",
    "settings",
    "allow_loopback",
    "engine",
}
"""Arguments of sources that are not for recipes."""

REVIEWED_SOURCE_OPTIONS = {
    "dense": {"model"},
    "hybrid": {"dense.model"},
    "api": {"base_url"},
}
"""The options of a kind, beside `rerank`, that do more than set sizes, times and numbers."""

REVIEWED_TARGET_OPTIONS = {
    "embedded": {"price", "chat_template_kwargs"},
    "vllm": {
        *("price", "chat_template_kwargs", "api_key_env", "identity", "body"),
        *("serve", "python", "flags"),
    },
    "hosted": {"price", "chat_template_kwargs", "api_key_env", "identity", "body"},
}


def names(record: Any) -> set[str]:
    return {*record.model_fields} if issubclass(record, Model) else {entry.name for entry in fields(record)}


def test_every_field_of_a_recipe_is_classified() -> None:
    assert names(Recipe) == trust.RECIPE_PLAIN | trust.RECIPE_REVIEWED
    assert names(Data) == trust.DATA_PLAIN | trust.DATA_REVIEWED
    assert names(GraderSettings) == trust.ASSESSING_PLAIN | {"entailment"}
    assert names(StudySpec) == {"storage"}
    assert names(TargetSpec) == {"kind", "model", "base_url", "options"}
    assert names(SourceSpec) == {"kind", "corpus", "options", "fields"}


def every_option(model: type[Options]) -> dict[str, Any]:
    """All options of `model`, those of its parts in tables."""
    parts = {name: field.annotation for name, field in model.model_fields.items()}
    return {
        name: every_option(part) if isinstance(part, type) and issubclass(part, Options) else "x"
        for name, part in parts.items()
    }


def reviewed(model: type[Options]) -> set[str]:
    """The options of `model` that are not marked as harmless. Every option has a mark."""
    marks = {".".join(map(str, keys)): mark for keys, _, mark in marked(model, every_option(model))}
    assert None not in marks.values(), marks
    return {name for name, mark in marks.items() if mark is not HARMLESS}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_option_of_a_target_is_classified(kind: str) -> None:
    assert reviewed(TARGETS.get(kind).options) == REVIEWED_TARGET_OPTIONS[kind]


@pytest.mark.parametrize("kind", SOURCES)
def test_every_option_of_a_source_is_classified(kind: str) -> None:
    assert reviewed(SOURCES.get(kind).options) == {"rerank"} | REVIEWED_SOURCE_OPTIONS.get(kind, set())


@pytest.mark.parametrize("kind", SOURCES)
def test_the_options_of_a_source_are_those_it_takes(kind: str) -> None:
    makers: dict[str, tuple[Callable[..., Any], ...]] = {
        "bm25": (Bm25Source,),
        "given": (GivenSource,),
        "lucene": (LuceneSource,),
        "dense": (DenseSource, IndexSettings),
        "hybrid": (HybridSource,),
        "web": (Ddgs, WebSource),
        "recorded": (RecordedSource,),
        "api": (ApiSource,),
    }
    arguments = {
        name: argument.default
        for maker in makers[kind]
        for name, argument in inspect.signature(maker).parameters.items()
        if name not in NOT_OPTIONS and argument.default is not argument.empty
    }
    fields = {
        name: field.default
        for name, field in SOURCES.get(kind).options.model_fields.items()
        if name not in {"rerank", "rerank_pool", "titles", "half", "model", "base_url", "dense", "sparse"}
    }
    assert fields == arguments
