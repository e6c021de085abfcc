"""Every field and option that a recipe may have is classified: plain, or looked at before it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from ragc import corpora
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.build import _INNER, _MAKERS
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.corpora.sources.dense import DenseSource
from ragc.corpora.sources.faiss_index import IndexSettings
from ragc.corpora.sources.given import GivenSource
from ragc.corpora.sources.hybrid import HybridSource
from ragc.corpora.sources.lucene.source import LuceneSource
from ragc.corpora.sources.recorded import RecordedSource
from ragc.corpora.sources.web.engine import Ddgs
from ragc.corpora.sources.web.source import WebSource
from ragc.metrics.base import Assessing
from ragc.optimizers.results import trust
from ragc.recipe.resolved import Data, Recipe, SourceSpec, StudySpec
from ragc.targets import TARGETS
from ragc.targets.base import TargetSpec
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.targets.options import HostedOptions, VllmOptions

REVIEWED_SOURCE_OPTIONS = {"dense": {"model"}, "hybrid": {"dense", "sparse"}, "api": {"base_url"}}


def names(record: Any) -> set[str]:
    return {one.name for one in fields(record)}


def keywords(*makers: Callable[..., Any]) -> set[str]:
    """What a recipe may pass to `makers`."""
    return {
        name
        for make in makers
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in _INNER
    }


def test_every_field_of_a_recipe_is_classified() -> None:
    assert names(Recipe) == trust.RECIPE_PLAIN | trust.RECIPE_REVIEWED
    assert names(Data) == trust.DATA_PLAIN | trust.DATA_REVIEWED
    assert names(Assessing) == trust.ASSESSING_PLAIN | {"entailment"}
    assert names(StudySpec) == {*trust.STUDY_ADDRESSES, "workers", "keep"}
    assert names(TargetSpec) == {"kind", "model", "base_url", "options"}
    assert names(SourceSpec) == {"kind", "corpus", "options", "fields"}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_option_of_a_target_is_classified(kind: str) -> None:
    options = {
        "embedded": keywords(EmbeddedTarget),
        "vllm": names(VllmOptions),
        "hosted": names(HostedOptions),
    }[kind]
    reviewed = {*trust.TARGET_RUNS, *trust.TARGET_SPEAKS, "body"}
    assert not trust.TARGET_PLAIN[kind] & reviewed
    assert trust.TARGET_PLAIN[kind] == options - reviewed


@pytest.mark.parametrize("kind", [entry.id for entry in corpora.SOURCES])
def test_every_option_of_a_source_is_classified(kind: str) -> None:
    makers: dict[str, tuple[Callable[..., Any], ...]] = {
        "bm25": (Bm25Source,),
        "given": (GivenSource,),
        "lucene": (LuceneSource,),
        "dense": (DenseSource,),
        "hybrid": (HybridSource,),
        "web": (WebSource, Ddgs),
        "recorded": (RecordedSource,),
        "api": (ApiSource,),
    }
    assert set(makers) == set(_MAKERS)
    options = keywords(*makers[kind])
    options |= names(IndexSettings) if kind == "dense" else set()
    plain, reviewed = trust.SOURCE_PLAIN[kind], REVIEWED_SOURCE_OPTIONS.get(kind, set())
    assert not plain & (reviewed | {"rerank", "model", "base_url"})
    assert plain - {"titles"} == options - reviewed
