"""Corrective RAG, through the public API, on scripted targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Search
from ragc.records import Passage
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.baselines.common import count_requests, script_replies
from tests.support.sources import numbered_source


def build_program(
    target: ScriptedTarget, local: Any = None, web: Any = None, proxy: Any = None, **knobs: Any
) -> RagProgram:
    targets: dict[Any, Any] = {"main": target} | ({"proxy": proxy} if proxy else {})
    sources = {"local": local or numbered_source("p", 20), "web": web or numbered_source("w", 20)}
    return method("crag").build(Runtime(targets, sources), knobs)


def grade_by_word(points: dict[str, int], other: int = -100) -> Callable[[str], Any]:
    """A grader that knows the points of passages by a word in them."""
    return lambda content: {"points": next((n for word, n in points.items() if word in content), other)}


@pytest.mark.parametrize(
    ("points", "action", "calls", "shown_ids"),
    [
        ({"text p1": 80}, "correct", {"grade": 10, "answer": 1}, ["p1", "p0", "p2"]),
        ({}, "incorrect", {"grade": 15, "query": 1, "answer": 1}, ["w0", "w1", "w2"]),
        (
            {"text p1": 10},
            "ambiguous",
            {"grade": 15, "query": 1, "answer": 1},
            ["p1", "p0", "p2", "w0", "w1", "w2"],
        ),
    ],
)
def test_takes_the_action_that_the_grades_ask_for(
    points: dict[str, int], action: str, calls: dict[str, int], shown_ids: list[str]
) -> None:
    target = ScriptedTarget(script_replies(grade=grade_by_word(points), query="key words", answer="x"))
    prediction = build_program(target)(question="Capital?")
    assert count_requests(target) == calls
    assert [p.id for p in prediction.passages] == shown_ids
    assert prediction.counters[f"crag_{action}"] == 1
    assert sum(prediction.counters[f"crag_{one}"] for one in ("correct", "incorrect", "ambiguous")) == 1
    queries = [(event.source, event.query) for event in prediction.trace if isinstance(event, Search)]
    assert queries == [("local", "Capital?")] + [("web", "key words")] * ("query" in calls)


@pytest.mark.parametrize(
    ("knobs", "points", "ids"),
    [
        ({"actions": "no_correct"}, {"text p1": 80}, ["p1", "p0", "p2", "w0", "w1", "w2"]),
        ({"crag_upper": 0.9}, {"text p1": 80}, ["p1", "p0", "p2", "w0", "w1", "w2"]),
        ({"crag_upper": 0.1, "crag_lower": 1.0}, {"text p1": 10}, ["p1", "p0", "p2"]),
        ({"actions": "no_incorrect"}, {}, ["p0", "p1", "p2", "w0", "w1", "w2"]),
        ({"actions": "no_ambiguous"}, {"text p1": 10}, ["w0", "w1", "w2"]),
        ({"refine": False, "top_k": 4}, {"text p1": 80}, ["p0", "p1", "p2", "p3"]),
        ({"select_web": False}, {}, ["w0", "w1", "w2", "w3", "w4"]),
        ({"keep": 1}, {"text p1": 80}, ["p1"]),
        ({"crag_lower": -1.0, "keep": 1}, {}, ["p0", "w0"]),
    ],
)
def test_knobs_change_what_is_shown(knobs: dict[str, Any], points: dict[str, int], ids: list[str]) -> None:
    target = ScriptedTarget(script_replies(grade=grade_by_word(points), query="words", answer="x"))
    assert [p.id for p in build_program(target, **knobs)(question="Q?").passages] == ids


def test_keeps_the_best_strips_and_bounds_how_many_are_graded() -> None:
    text = " ".join(f"Fact {i} stands." for i in range(12))
    target = ScriptedTarget(
        script_replies(grade=grade_by_word({"Fact 6 ": 90, "Fact 0 ": 70}, 60), answer="x")
    )
    prediction = build_program(
        target, local=ListSource([Passage("a", "A", text)]), strips="three_sentences", keep=1
    )(question="Q?")
    assert prediction.passages[0].text == " ".join(f"Fact {i} stands." for i in (0, 1, 2, 6, 7, 8))
    many = ListSource([Passage("b", "B", "w " * 40 + " ".join(str(i) for i in range(500)))])
    target = ScriptedTarget(script_replies(grade={"points": 90}, answer="x"))
    prediction = build_program(target, local=many, strips="fifty_words", strips_max=5)(question="Q?")
    assert count_requests(target)["grade"] == 1 + 5
    assert prediction.counters["crag_strips_left"] == 6


def test_binary_searches_the_web_only_when_a_passage_is_irrelevant() -> None:
    target = ScriptedTarget(script_replies(relevant=True, answer="x"))
    prediction = build_program(target, form="binary", top_k=3)(question="Q?")
    assert count_requests(target) == {"relevant": 3, "answer": 1}
    assert ([p.id for p in prediction.passages], prediction.counters["crag_web"]) == (["p0", "p1", "p2"], 0)
    target = ScriptedTarget(
        script_replies(relevant=lambda content: "text p1" not in content, better_query="b", answer="x"),
        hold=True,
    )
    prediction = build_program(target, form="binary", top_k=3, web_k=1)(question="Q?")
    assert count_requests(target) == {"relevant": 3, "better_query": 1, "answer": 1}
    assert [p.id for p in prediction.passages] == ["p0", "p2", "w0"]
    assert target.steps == 3


def test_unreadable_grades_are_neither_good_nor_bad_and_an_empty_query_is_dropped() -> None:
    target = ScriptedTarget(
        lambda request: (
            "no"
            if '"grade"' in request.messages[0].content
            else script_replies(query=" ", answer="x")(request)
        )
    )
    prediction = build_program(target, top_k=1, web_k=1, select_web=False)(question="Q?")
    assert prediction.counters["crag_ambiguous"] == 1
    assert prediction.counters["dropped"] == 2
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["Q?", "Q?"]
