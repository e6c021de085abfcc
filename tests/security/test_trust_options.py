"""Every field and option that a recipe may have is classified: plain, or looked at before it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from ragc import corpora
from ragc.compiled import trust
from ragc.core.validation import Model
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.corpora.sources.dense import DenseSource
from ragc.corpora.sources.faiss_index import IndexSettings
from ragc.corpora.sources.given import GivenSource
from ragc.corpora.sources.hybrid import HybridSource
from ragc.corpora.sources.lucene.source import LuceneSource
from ragc.corpora.sources.options import OPTIONS as SOURCE_OPTIONS
from ragc.corpora.sources.recorded import RecordedSource
from ragc.corpora.sources.web.engine import Ddgs
from ragc.corpora.sources.web.source import WebSource
from ragc.metrics.base import GraderSettings
from ragc.recipe.base import Recipe, SourceSpec
from ragc.recipe.models import Data, StudySpec
from ragc.targets import TARGETS
from ragc.targets.base import TargetSpec
from ragc.targets.options import OPTIONS as TARGET_OPTIONS

SOURCES = [entry.id for entry in corpora.SOURCES]
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

REVIEWED_SOURCE_OPTIONS = {"dense": {"model"}, "hybrid": {"dense", "sparse"}, "api": {"base_url"}}


def names(record: Any) -> set[str]:
    return {*record.model_fields} if issubclass(record, Model) else {entry.name for entry in fields(record)}


def test_every_field_of_a_recipe_is_classified() -> None:
    assert names(Recipe) == trust.RECIPE_PLAIN | trust.RECIPE_REVIEWED
    assert names(Data) == trust.DATA_PLAIN | trust.DATA_REVIEWED
    assert names(GraderSettings) == trust.ASSESSING_PLAIN | {"entailment"}
    assert names(StudySpec) == {*trust.STUDY_ADDRESSES, "workers", "keep"}
    assert names(TargetSpec) == {"kind", "model", "base_url", "options"}
    assert names(SourceSpec) == {"kind", "corpus", "options", "fields"}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_option_of_a_target_is_classified(kind: str) -> None:
    options = set(TARGET_OPTIONS[kind].model_fields)
    reviewed = {*trust.TARGET_RUNS, *trust.TARGET_SPEAKS, "body", "chat_template_kwargs"}
    assert not trust.TARGET_PLAIN[kind] & reviewed
    assert trust.TARGET_PLAIN[kind] == options - reviewed


@pytest.mark.parametrize("kind", SOURCES)
def test_every_option_of_a_source_is_classified(kind: str) -> None:
    options = set(SOURCE_OPTIONS[kind].model_fields) - {"rerank", "rerank_pool", "titles", "half"}
    plain, reviewed = trust.SOURCE_PLAIN[kind], REVIEWED_SOURCE_OPTIONS.get(kind, set())
    assert not plain & (reviewed | {"rerank", "model", "base_url"})
    assert plain - {"titles", "half"} == options - reviewed


@pytest.mark.parametrize(("part", "kind"), [("dense", "dense"), ("sparse", "bm25")])
def test_the_parts_of_a_hybrid_source_have_only_classified_options(part: str, kind: str) -> None:
    options: Any = SOURCE_OPTIONS["hybrid"].model_fields[part].annotation
    assert set(options.model_fields) <= trust.SOURCE_PLAIN[kind] | REVIEWED_SOURCE_OPTIONS.get(kind, set())


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
        for name, field in SOURCE_OPTIONS[kind].model_fields.items()
        if name not in {"rerank", "rerank_pool", "titles", "half", *REVIEWED_SOURCE_OPTIONS.get(kind, ())}
    }
    assert fields == arguments
