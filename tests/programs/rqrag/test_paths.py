"""RQ-RAG's paths: when they grow and end, and what of them is shown, on scripted targets."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs.trace import Note
from ragc.records import Passage
from ragc.signatures.grade import NeedRetrieval
from ragc.signatures.query import DecomposeQuery, RewriteQuery
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.rqrag.common import (
    BOTH,
    FORK,
    build_program,
    fresh,
    is_for,
    last_answer,
    select_requests,
)


@pytest.mark.parametrize("action", ["rewrite", "answer"])
def test_on_demand_the_model_chooses_until_it_answers_or_the_limit(action: str) -> None:
    calls = 2 * 4 if action == "rewrite" else 1
    target = ScriptedTarget(lambda r: {**fresh(r), "reason": "so", "action": action})
    prediction = build_program(target, mode="search_on_demand", search_limit=4)(question="Capital?")
    assert (prediction.answer, prediction.candidates) == ("a", ("a",))
    assert len(target.requests) == calls + 1
    assert (
        prediction.counters["searches"] == prediction.counters["depth"] == (4 if action == "rewrite" else 0)
    )


def test_on_demand_a_kind_that_is_not_offered_ends_in_an_answer() -> None:
    bad = {"reason": "so", "action": "rewrite"}
    target = ScriptedTarget([bad, bad, {"answer": "x"}], capabilities=())
    prediction = build_program(target, mode="search_on_demand", width="decompose+disambiguate")(
        question="Capital?"
    )
    assert (
        prediction.answer,
        prediction.counters["dropped"],
        prediction.counters["searches"],
        target.replies_left,
    ) == ("x", 1, 0, 0)
    schemas = ScriptedTarget([{"reason": "so", "action": "answer"}, {"answer": "x"}])
    build_program(schemas, mode="search_on_demand", width="decompose")(question="Capital?")
    schema = schemas.requests[0].schema
    assert schema is not None
    assert schema["properties"]["action"]["enum"] == ["decompose", "answer"]


@pytest.mark.parametrize(("query", "dropped"), [({"query": " \n"}, 1), ({"no": 1, "none": 2}, 1)])
def test_a_query_that_is_empty_or_unreadable_ends_its_branch_and_is_counted(query: Any, dropped: int) -> None:
    def reply(request: ChatRequest) -> Any:
        return query if is_for(request, RewriteQuery) else BOTH

    prediction = build_program(ScriptedTarget(reply), **FORK)(question="Capital?")
    assert (prediction.candidates, prediction.counters["searches"]) == (("a", "a"), 1)
    assert prediction.counters["dropped"] == dropped
    assert any(isinstance(e, Note) and e.about == "rewrite" for e in prediction.trace)


def test_the_oldest_evidence_goes_first_when_a_path_does_not_fit() -> None:
    long = ListSource([Passage(f"p{i}", "", f"no{i} " + "word " * 20) for i in range(4)])
    target = ScriptedTarget(lambda r: BOTH, context_tokens=226)
    knobs = {"width": "rewrite", "ndocs": 2, "exclude_seen": True}
    prediction = build_program(target, long, **knobs)(question="Capital?")
    shown_ids = [name for name in ("no0", "no1", "no2", "no3") if name in last_answer(target)]
    assert shown_ids == ["no0", "no2", "no3"]
    assert [p.id for p in prediction.passages] == ["p0", "p2", "p3"]
    assert prediction.counters["trimmed"] == 1
    tiny = ScriptedTarget(lambda r: BOTH, context_tokens=150)
    assert build_program(tiny, long, **knobs)(question="Capital?").passages == ()


@pytest.mark.parametrize(
    ("need", "threshold", "queries"),
    [(40, 0.5, 0), (50, 0.5, 2), (0, 0.1, 0), (100, 1.0, 2), ("?", 0.5, 2)],
)
def test_a_search_that_is_less_likely_needed_than_the_threshold_is_not_made(
    need: Any, threshold: float, queries: int
) -> None:
    def reply(request: ChatRequest) -> Any:
        return {"need": need} if is_for(request, NeedRetrieval) else fresh(request)

    target = ScriptedTarget(reply)
    program = build_program(target, width="decompose", retrieve_threshold=threshold)
    prediction = program(question="Capital?")
    assert len(select_requests(target, NeedRetrieval)) == 1 + prediction.counters["repairs"]
    assert prediction.counters["searches"] == len(select_requests(target, DecomposeQuery)) == queries
    assert len(prediction.candidates) == queries + 1
    assert prediction.counters["dropped"] == (need == "?")
    notes = [e.outcome for e in prediction.trace if isinstance(e, Note) and e.about == "search"]
    assert notes == ([] if need == "?" else [f"needed by {need / 100:g}, threshold {threshold:g}"])


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"retrieve_threshold": 0.5, "max_depth": 0},
        {"retrieve_threshold": 0.5, "mode": "search_on_demand"},
    ],
)
def test_where_nothing_depends_on_it_the_model_is_not_asked_whether_to_search(knobs: dict[str, Any]) -> None:
    target = ScriptedTarget(lambda r: {**BOTH, "reason": "so", "action": "answer"})
    build_program(target, **knobs)(question="Capital?")
    assert not select_requests(target, NeedRetrieval)


def test_a_query_of_the_path_is_not_searched_again_and_no_passage_stands_twice() -> None:
    target = ScriptedTarget(lambda r: {"query": "When did the Titanic sink?", "answer": "1912"})
    source = ListSource([Passage("t", "RMS Titanic", "The Titanic sank in 1912."), Passage("u", "", "Cold.")])
    prediction = build_program(target, source, width="decompose", max_depth=3)(question="Capital?")
    assert (len(prediction.candidates), prediction.counters["searches"]) == (4, 1)
    first = "[1] decompose: When did the Titanic sink?\nPassage 1: RMS Titanic\nThe Titanic sank in 1912.\n"
    assert f"{first}Passage 2\nCold.\n[2] decompose" in last_answer(target)
    assert last_answer(target).count("sank in 1912") == last_answer(target).count("Cold.") == 1
    assert last_answer(target).count("Passage 1: RMS Titanic (shown above)") == 2
    assert [p.id for p in prediction.passages] == ["t", "u"]
    notes = [e.outcome for e in prediction.trace if isinstance(e, Note) and e.about == "local"]
    assert notes == ["not searched again: When did the Titanic sink?"] * 2


def test_a_repeated_query_finds_further_passages_where_seen_ones_are_excluded() -> None:
    target = ScriptedTarget(lambda r: BOTH)
    build_program(target, width="decompose", ndocs=1, exclude_seen=True)(question="Capital?")
    assert "Passage 2: Title 1\ntext 1" in last_answer(target)
