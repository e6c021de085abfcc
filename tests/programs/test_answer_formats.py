"""How answers are worded, for every program and format, and what options become of what a model writes."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.metrics.alce import METRICS as ALCE
from ragc.metrics.base import Outcome
from ragc.metrics.citations import cited_sentences
from ragc.programs import METHODS, Method, method
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.signatures.answer import FORMATS, UNCITED
from ragc.store.calls import CallStore
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

FOUND = ListSource([Passage(f"p{i}", f"Title {i}", f"Thing {i} is red.") for i in range(9)])
CASES = [
    (entry, name)
    for entry in METHODS
    for name in entry.knobs.knob("answer_format").options
    if isinstance(name, str)
]


def collect_system_prompts(entry: Method, name: str) -> list[Any]:
    """The system prompts of a run whose answer is to be in the format `name`."""
    target = ScriptedTarget(SchemaReplies(logprob=-0.01))
    roles: Any = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    sources: Any = dict.fromkeys(("local", "web", *entry.sources, *entry.optional_sources), FOUND)
    knobs = {"answer_format": name} | ({"finish": "short"} if entry.id == "flare" else {})
    prediction = entry.build(Runtime(roles, sources, store=CallStore(None)), knobs)(
        question="Which thing is red?"
    )
    assert isinstance(prediction.answer, str)
    return [request.messages[0].content for request in target.requests]


@pytest.mark.parametrize(("entry", "name"), CASES, ids=lambda value: getattr(value, "id", value))
def test_every_program_asks_for_the_format_and_for_no_other(entry: Method, name: str) -> None:
    prompts = "\n".join(collect_system_prompts(entry, name))
    assert FORMATS[name].what.split(",")[0] in prompts or name == "cited"
    if name != "short":
        assert FORMATS["short"].what not in prompts


@pytest.mark.parametrize("id", ["vanilla", "ggatrieval", "llatrieval"])
def test_a_cited_list_has_one_mark_an_item_and_is_read_by_the_metrics_of_qampari(id: str) -> None:
    listed = "Rhine [1], Main [2][3], Nile [99], Ems [3, 1]."
    target = ScriptedTarget(SchemaReplies(fields={"answer": listed}))
    prediction = method(id).build(
        Runtime({"main": target}, {"local": FOUND}, store=CallStore(None)),
        {"answer_format": "cited_list", ("top_k" if id == "vanilla" else "k_support"): 3},
    )(question="Which rivers?")
    assert prediction.answer == "Rhine [1], Main [2], Nile, Ems [3]."
    assert prediction.counters["dropped"] >= 3
    golds = [["Rhine", "Rhein"], ["Main"], ["Ems"], ["Elbe"], ["Oder"]]
    outcome = Outcome(
        prediction.answer,
        answers=("Rhine",),
        question="Which rivers?",
        passages=prediction.passages,
        extra={"answers": golds},
    )
    scores = {metric.id: metric.score(outcome) for metric in ALCE}
    assert [scores[f"qampari_{name}"] for name in ("prec", "rec", "rec_5")] == [0.75, 0.6, 0.6]
    cited = cited_sentences(outcome)
    assert [part.text for part in cited] == [
        f"Which rivers? {item}" for item in ("Rhine", "Main", "Nile", "Ems")
    ]
    assert [part.used for part in cited] == [(1,), (2,), (), (3,)]


@pytest.mark.parametrize(("wanted", "alone"), UNCITED.items())
def test_a_format_with_marks_asks_for_none_where_there_are_no_passages(wanted: str, alone: str) -> None:
    program = method("ragx").build(
        Runtime({"main": ScriptedTarget([])}, {"local": FOUND}),
        {"answer_format": wanted, "source_policy": "llm"},
    )
    for predictor in program.predictors():
        assert FORMATS[wanted].what not in str(predictor.signature)
    assert any(FORMATS[alone].what in str(predictor.signature) for predictor in program.predictors())
