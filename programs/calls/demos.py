"""Demonstrations of typed calls: plain JSON objects, the nearest ones, and teacher forcing.

Nearest demonstrations need no model. The question of a demonstration is scored by BM25, as a search scores a
passage, among the demonstrations of its predictor alone. Nothing is random: ties stay in the original order.

Teacher forcing: a known answer replaces the model's reply, so that a run can be shown as an example. Inside
`forced_outputs`, a typed call whose outputs are all known returns those and sends nothing; every other call
is answered as usual. The trace of such a run is that of a run with the right answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import dspy
from pydantic_core import to_jsonable_python

from ragc.core.text import repair_surrogates, repair_value
from ragc.corpora.sources.bm25 import bm25_scores
from ragc.corpora.sources.terms import analyze, query_terms


def plain(values: Mapping[str, Any] | dspy.Example) -> dict[str, Any]:
    """Returns `values`, such as a demonstration, as JSON values by field name.

    DSPy's own marks and lone surrogates are left out. A value that JSON cannot hold becomes its text.
    """
    items = values if isinstance(values, Mapping) else values.toDict()
    return {name: _plain(value) for name, value in items.items() if name != "augmented"}


def _plain(value: Any) -> Any:
    value = repair_value(value)
    try:
        return to_jsonable_python(value, fallback=str)
    except ValueError:  # half of a surrogate pair inside an object
        return repair_surrogates(str(value))


ASKED = ("question", "query")
"""The inputs that hold what is asked; a call without one is compared by all its inputs."""


def nearest_first(demos: Sequence[Mapping[str, Any]], inputs: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the positions of `demos`, nearest first to a call with `inputs`, values by field name."""
    field = next((name for name in ASKED if name in inputs), "")
    fields = (field,) if field else tuple(inputs)
    documents = [_terms(_text(demo, fields)) for demo in demos]
    scores = bm25_scores(query_terms(_text(inputs, fields)), documents)
    return tuple(sorted(range(len(demos)), key=lambda place: -scores[place]))


def _text(values: Mapping[str, Any], fields: Sequence[str]) -> str:
    return "\n".join(str(values[name]) for name in fields if name in values)


@lru_cache(maxsize=4096)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(analyze(text))


forced: ContextVar[Mapping[str, Any] | None] = ContextVar("ragc_forced", default=None)
"""The values of outputs by field name that are known in this context; None outside of `forced_outputs`."""


@contextmanager
def forced_outputs(outputs: Mapping[str, Any]) -> Iterator[None]:
    """Uses `outputs` (values by field name) instead of replies, in this context and its tasks, until exit."""
    token = forced.set(dict(outputs))
    try:
        yield
    finally:
        forced.reset(token)


def forced_values(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the known values of all output `fields`; None when one is not known or nothing is forced."""
    values = forced.get()
    if values is None or not fields.keys() <= values.keys():
        return None
    return {name: values[name] for name in fields}
