"""Self-RAG, through the public API, on scripted targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Search
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.programs.baselines.common import Echo, count_requests, script_replies, tokens
from tests.support.requests import last_output
from tests.support.sources import numbered_source

JUDGED = {"need": 90, "relevant": True, "support": "fully", "utility": 5, "closed": "x"}


def build_program(target: ScriptedTarget, local: Any = None, **knobs: Any) -> RagProgram:
    return method("selfrag").build(
        Runtime({"main": target}, {"local": local or numbered_source("p", 20)}), knobs
    )


def by_passage(**words: str) -> Callable[[str], str]:
    """The answer that stands beside the first of `words` in the message; "none" without one."""
    return lambda content: next(
        (answer for word, answer in words.items() if f"text {word}" in content), "none"
    )


def test_asks_all_passages_at_once_and_keeps_the_best_answer() -> None:
    target = ScriptedTarget(
        script_replies(**(JUDGED | {"answer": by_passage(p0="a", p1="b", p2="c"), "support": lambda content: (
            "fully" if "Answer: b" in content else "partially")})),
        hold=True,
    )  # fmt: skip
    prediction = build_program(target, top_k=3)(question="Q?")
    assert count_requests(target) == {"need": 1, "answer": 3, "relevant": 3, "support": 3, "utility": 3}
    assert (prediction.answer, [p.id for p in prediction.passages]) == ("b", ["p1"])
    assert target.steps == 3
    calls = [event.name for event in prediction.trace if isinstance(event, Call)]
    assert calls == ["need", *["answer", "relevance", "support", "utility"] * 3]


@pytest.mark.parametrize(
    ("knobs", "best"),
    [
        ({}, "a"),  # p0: 0 + 1 + 1, p1: 1 + 0.5 + 0, p2: 1 + 0 + 0.5
        ({"w_use": 0.4}, "b"),  # 1.4, 1.5, 1.2
        ({"w_sup": 0.4}, "b"),  # 1.4, 1.2, 1.5
        ({"w_rel": 2.0, "w_use": 0.5}, "b"),  # 1.5, 2.5, 2.25
        ({"w_rel": 2.0, "w_sup": 0.0}, "b"),  # 1, 2, 2.5 and the sum of b is 4.5
        ({"pick": "sum"}, "b"),  # a has 2, b has 1.5 + 1.5
    ],
)
def test_scores_as_the_paper_does(knobs: dict[str, Any], best: str) -> None:
    support = {"text p0": "fully", "text p1": "partially", "text p2": "none"}

    def reply(request: ChatRequest) -> Any:
        content, name = request.messages[-1].content, last_output(request)
        if name == "support":
            return {name: next(v for k, v in support.items() if k in content)}
        if name == "utility":
            return {name: 5 if "Answer: a" in content else 3 if "Answer: The b" in content else 4}
        values: dict[str, Any] = {
            "answer": by_passage(p0="a", p1="The b", p2="b")(content), "relevant": "text p0" not in content
        }  # fmt: skip
        return {name: values[name]}

    prediction = build_program(ScriptedTarget(reply), gate="always", top_k=3, **knobs)(question="Q?")
    assert prediction.answer.removeprefix("The ") == best


def test_can_weigh_the_probability_of_the_answer_itself() -> None:
    def answer(content: str) -> Reply:
        if "text p1" in content:
            return tokens(('{"answer": "', 0.01), ("b", 0.9), ('"}', 0.01))
        return tokens(('{"answer": "', 1.0), ("a", 0.5), ('"}', 1.0))

    target = ScriptedTarget(script_replies(**JUDGED, answer=answer))
    assert build_program(target, top_k=2)(question="Q?").answer == "a"
    assert not any(request.logprobs for request in target.requests)
    assert build_program(target, top_k=2, w_seq=1.0)(question="Q?").answer == "b"


def test_unreadable_verdicts_weigh_nothing_and_lost_answers_are_dropped() -> None:
    def reply(request: ChatRequest) -> Any:
        content = request.messages[0].content
        if '"support"' in content or '"relevant"' in content or '"need"' in content:
            return "{}"
        return script_replies(utility=5, answer=by_passage(p0="  ", p1="b"))(request)

    prediction = build_program(ScriptedTarget(reply), top_k=2)(question="Q?")
    assert (prediction.answer, prediction.counters["selfrag_candidates"]) == ("b", 1)
    assert prediction.counters["dropped"] == 4  # need, relevance twice, support


def test_graph_rewords_and_retries_until_an_answer_holds_or_the_rounds_end() -> None:
    turn = iter(range(9))
    bad = {**JUDGED, "support": "none", "better_query": lambda content: f"other {next(turn)}"}
    answer = by_passage(**{"p0 on other 0": "y", "p0 on other 1": "z", "p0": "x"})
    target = ScriptedTarget(script_replies(**bad, answer=answer), hold=True)
    prediction = build_program(target, local=Echo([]), form="graph", top_k=2, rounds=3)(question="Q?")
    assert count_requests(target) == {
        "relevant": 6,
        "answer": 3,
        "support": 2,
        "utility": 2,
        "better_query": 2,
    }
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["Q?", "other 0", "other 1"]
    assert target.steps == 4 + 4 + 2
    assert (prediction.answer, prediction.counters["selfrag_rounds"]) == ("z", 3)
    target = ScriptedTarget(script_replies(**JUDGED, better_query="o", answer="x"))
    assert build_program(target, form="graph")(question="Q?").counters["selfrag_rounds"] == 1


def test_graph_with_nothing_relevant_ends_in_what_the_model_knows() -> None:
    target = ScriptedTarget(script_replies(relevant=False, better_query="", answer="x"))
    prediction = build_program(target, form="graph", top_k=1, rounds=2)(question="Q?")
    calls = [event.name for event in prediction.trace if isinstance(event, Call)]
    assert calls == ["relevance", "query", "relevance", "closed"]
    assert (prediction.answer, prediction.passages, prediction.counters["dropped"]) == ("x", (), 1)
