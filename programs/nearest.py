"""Demonstrations that are nearest to a call's question, found without a model.

The question of a demonstration is scored by BM25, as a search scores a passage, among the demonstrations of
its predictor alone. Nothing is random: equal scores keep the order in which the demonstrations are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ragc.corpora.bm25 import lucene
from ragc.corpora.terms import analyze, query_terms

ASKED = ("question", "query")
"""The inputs that hold what is asked; a call without one is compared by all its inputs."""


def ranked(demos: Sequence[Mapping[str, Any]], inputs: Mapping[str, Any]) -> tuple[int, ...]:
    """The places of `demos`, nearest first to a call with `inputs`, values by field name."""
    asked = next((name for name in ASKED if name in inputs), "")
    fields = (asked,) if asked else tuple(inputs)
    documents = [_terms(_text(demo, fields)) for demo in demos]
    scores = lucene(query_terms(_text(inputs, fields)), documents)
    return tuple(sorted(range(len(demos)), key=lambda place: -scores[place]))


def _text(values: Mapping[str, Any], fields: Sequence[str]) -> str:
    return "\n".join(str(values[name]) for name in fields if name in values)


@lru_cache(maxsize=4096)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(analyze(text))
