"""Few-shot examples of RAG-X: which are shown to which question, and how they are collected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ragc import metrics
from ragc.core import event_loop
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.demos.bootstrap import collect, set_demos
from ragc.optimizers.candidates.demos.pool import DemoPool
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.ragx import RagXKnobs
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.signatures.answer import INVALID, UNSURE
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.ragx.common import list_requests
from tests.support.requests import last_output

FOUND = [Passage(f"w{i}", "", f"Thing {i} is red.") for i in range(4)]
DOMAINS = {"film": "movie", "song": "music", "team": "sports"}


def script_replies(
    answer: str | Callable[[ChatRequest], str] = "red",
) -> Callable[[ChatRequest], dict[str, Any]]:
    """Replies whose domain goes by a word of the question."""

    def reply(request: ChatRequest) -> dict[str, Any]:
        text = request.messages[-1].content
        values = {
            "domain": next((domain for word, domain in DOMAINS.items() if word in text), "open"),
            "entities": {"items": [{"text": "film", "kind": "movie"}]},
            "choice": "web",
            "order": [1],
            "answer": answer if isinstance(answer, str) else answer(request),
        }
        assert request.schema is not None
        return {name: values.get(name, "so") for name in request.schema["properties"]}

    return reply


def build_program(target: ScriptedTarget, **knobs: Any) -> RagProgram:
    sources = {"web": ListSource(FOUND), "kg": ListSource(FOUND)}
    return method("ragx").build(
        Runtime({"main": target}, sources), {"icl_n": 16, "icl_domain": "any", **knobs}
    )


def demo(question: str, domain: str = "", answer: str = "a") -> dict[str, Any]:
    values = {"question": question, "query_time": "t", "passages": ["p"], "answer": answer}
    return {**values, "domain": domain} if domain else values


DEMOS = [
    demo("Q0?", "movie"),
    demo("Q1?", "music"),
    demo("Q2?", "movie"),
    demo("Q3?", "music", "Invalid question."),
    demo("Q4?", "movie", INVALID),
    demo("Q5?"),
]


def examples(target: ScriptedTarget) -> list[str]:
    """The questions of the demonstrations in the last request."""
    users = [m.content for m in target.requests[-1].messages if m.role == "user"]
    return [text.split("?")[0].removeprefix("Question: ") for text in users[:-1]]


@pytest.mark.parametrize(
    ("knobs", "shown"),
    [
        ({}, "Q0 Q1 Q2 Q3 Q4 Q5"),
        ({"icl_n": 2}, "Q0 Q1"),
        ({"icl_domain": "same"}, "Q0 Q2 Q4"),
        ({"icl_domain": "cross"}, "Q1 Q3"),
        ({"icl_domain": "same", "icl_n": 2}, "Q0 Q2"),
        ({"icl_invalid": 1, "icl_n": 2}, "Q0 Q3"),
        ({"icl_invalid": 3, "icl_n": 2}, "Q3 Q4"),
        ({"icl_invalid": 3, "icl_n": 3}, "Q0 Q3 Q4"),
        ({"icl_invalid": 1, "icl_n": 6}, "Q0 Q1 Q2 Q3 Q4 Q5"),
        ({"icl_domain": "same", "icl_invalid": 1, "icl_n": 2}, "Q0 Q4"),
        ({"icl_domain": "cross", "icl_invalid": 1, "icl_n": 1}, "Q3"),
        ({"icl_domain": "same", "icl_invalid": 1, "icl_n": 0}, ""),
    ],
)
def test_the_demonstrations_shown_suit_the_question(knobs: dict[str, Any], shown: str) -> None:
    target = ScriptedTarget(script_replies())
    program: Any = build_program(target, **knobs)
    program.answer.demos = DEMOS
    program(question="Which film is it?")
    assert examples(target) == shown.split()
    assert ("domain" in list_requests(target)) == ("icl_domain" in knobs and knobs.get("icl_n") != 0)


def test_each_question_is_shown_its_own_and_the_domain_is_not_sent() -> None:
    target = ScriptedTarget(script_replies())
    program: Any = build_program(target, icl_domain="same")
    program.answer.demos = DEMOS
    program(question="Which film is it?")
    program(question="Which song is it?")
    assert examples(target) == ["Q1", "Q3"]
    program(question="Which team is it?")
    assert examples(target) == []
    program.answer.demos = [demo("Q9?", "sports")]
    program(question="Which team is it?")
    assert examples(target) == ["Q9"]
    answers = [r for r in target.requests if last_output(r) == "answer"]
    assert not any("domain" in m.content.lower() for r in answers for m in r.messages)


@pytest.mark.parametrize(
    ("knobs", "question", "shown"),
    [
        ({"icl_domain": "same"}, "Which film is Q2?", "Q2"),
        ({"icl_domain": "same"}, "Which film is Q1?", "Q0"),
        ({"icl_domain": "cross"}, "Which film is Q3?", "Q3"),
        ({"icl_invalid": 1}, "Which is Q4?", "Q4"),
    ],
)
def test_the_nearest_are_the_nearest_of_all_that_suit(
    knobs: dict[str, Any], question: str, shown: str
) -> None:
    target = ScriptedTarget(script_replies())
    program: Any = build_program(target, **knobs)
    program.answer.demos, program.answer.nearest = DEMOS, 1
    program(question=question)
    assert examples(target) == [shown]


def test_a_domain_that_is_given_is_not_asked_for() -> None:
    target = ScriptedTarget(script_replies())
    program: Any = build_program(target, icl_domain="same", gold_domain=True)
    program.answer.demos = [demo("Q0?", "Films of old")]
    program(question="Which one is it?", domain="films of Old")
    assert (list_requests(target), examples(target)) == (["answer"], ["Q0"])
    other = ScriptedTarget(script_replies())
    build_program(other, source_policy="kg", gold_domain=True)(question="Which film is it?", domain="Movie")
    assert list_requests(other) == ["entities", "answer"]


def test_the_domain_of_the_data_set_is_a_label_and_not_used_unless_it_is_allowed() -> None:
    target = ScriptedTarget(script_replies())
    build_program(target, source_policy="kg")(question="Which film is it?", domain="music")
    assert list_requests(target)[0] == "domain"
    entities = next(r for r in target.requests if last_output(r) == "entities")
    assert "Domain: movie" in entities.messages[-1].content
    assert RagXKnobs().gold_domain is False


@pytest.mark.parametrize("policy", ["llm_all", "predefined_all", "agent", "predefined_web"])
def test_a_domain_is_named_once_and_each_stage_has_its_examples(policy: str) -> None:
    target = ScriptedTarget(script_replies(lambda r: "y" if "Passages" in r.messages[-1].content else UNSURE))
    program: Any = build_program(target, source_policy=policy, icl_domain="cross")
    for name in {"closed", "answer"} & {name for name, _ in program.named_predictors()}:
        getattr(program, name).demos = [{**d, "reasoning": "so"} for d in DEMOS]
    prediction = program(question="Which film is it?")
    assert prediction.answer == "y"
    assert list_requests(target).count("domain") == 1
    shown = [len(r.messages) for r in target.requests if last_output(r) == "answer"]
    assert set(shown) == {2 + 2 * 2}


TRAIN = [
    Question("a", "Which film is red?", ("red",)),
    Question("b", "Which song is red?", ("red",)),
    Question("c", "Which film is blue?", ("blue",)),
]


def collected(program: RagProgram, train: list[Question]) -> DemoPool:
    """What `program` earns on `train`."""
    limit = asyncio.Semaphore(4)
    work = collect(
        program, train, Scorer.of(metrics.get("em")), n_demos=8, filled=8, threshold=1.0, limit=limit
    )
    return event_loop.run(work)


def test_collected_demonstrations_hold_their_domain_and_are_shown_by_it() -> None:
    target = ScriptedTarget(script_replies())
    pool = collected(build_program(target, icl_domain="same"), TRAIN)
    assert [(d["question"], d["domain"]) for d in pool.demos["answer"]] == [
        ("Which film is red?", "movie"),
        ("Which song is red?", "music"),
    ]
    again = ScriptedTarget(script_replies())
    set_demos(build_program(again, icl_domain="same"), pool.demos)(question="Which song is it?")
    assert examples(again) == ["Which song is red"]


@pytest.mark.parametrize("alone", ["green", UNSURE])
def test_known_answers_teach_the_stage_that_reads(alone: str) -> None:
    target = ScriptedTarget(script_replies(lambda r: "no" if "Passages" in r.messages[-1].content else alone))
    pool = collected(build_program(target, source_policy="predefined_web"), TRAIN[:2])
    assert (pool.scores, pool.labelled) == ((), 2)
    assert [d["answer"] for d in pool.demos["answer"]] == ["red", "red"]
    assert all("Thing 0 is red." in d["passages"] for d in pool.demos["answer"])
    assert pool.demos["closed"] == ()
