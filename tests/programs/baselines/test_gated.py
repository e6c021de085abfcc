"""SKR-KNN and Self-Eval: a gate, then an answer with passages or without, on scripted targets."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from ragc import metrics
from ragc.core.counters import Counters, counting
from ragc.errors import UsageError
from ragc.metrics import Metric
from ragc.metrics.base import Scorer
from ragc.programs import method
from ragc.programs.baselines.gated import should_retrieve
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note
from ragc.records import Passage, Question
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

PASSAGES = [Passage(f"p{i}", f"Title {i}", f"text {i} end") for i in range(5)]
LABELS = [("capital town", "worse"), ("river length", "better")]


def build_program(id: str, target: ScriptedTarget | None = None, source: Any = None, **knobs: Any) -> Any:
    targets = {"main": target or ScriptedTarget(SchemaReplies())}
    return method(id).build(Runtime(targets, {"local": source or ListSource(PASSAGES)}), knobs)


def labelled(*, pairs: Any = LABELS, target: ScriptedTarget | None = None, **knobs: Any) -> Any:
    program = build_program("skr", target, **knobs)
    program.labels = pairs
    return program


def read_passages(request: ChatRequest) -> list[int]:
    """Which passages stand in a prompt, in order."""
    return [int(n) for n in re.findall(r"text (\d+) end", request.messages[-1].content)]


def outcomes(prediction: Any) -> list[str]:
    return [event.outcome for event in prediction.trace if isinstance(event, Note)]


# SKR-KNN


def test_skr_without_labels_always_retrieves_and_says_so() -> None:
    prediction = build_program("skr")(question="Q?")
    assert (len(prediction.passages), prediction.counters["retrieved"], prediction.counters["lm_calls"]) == (
        3,
        1,
        1,
    )
    assert (
        prediction.counters["skr_unlabelled"],
        prediction.counters["skr_bm25"],
        prediction.counters["skr_alone"],
    ) == (
        1,
        0,
        0,
    )
    assert outcomes(prediction) == ["there are no labels: retrieve"]


def test_skr_goes_by_the_train_questions_that_are_alike() -> None:
    target = ScriptedTarget(SchemaReplies())
    pairs = [(f"capital town {i}", "worse") for i in range(6)]
    program = labelled(pairs=[*pairs, *((f"river length {i}", "better") for i in range(5))], target=target)
    prediction = program(question="capital of France?")
    assert (prediction.counters["retrieved"], read_passages(target.requests[-1])) == (0, [])
    assert [type(event) for event in prediction.trace] == [Note, Call]
    assert program(question="river Rhine?").counters["retrieved"] == 1
    assert read_passages(target.requests[-1]) == [0, 1, 2]


@pytest.mark.parametrize("question", ["nothing shared?", "capital town"])
def test_without_a_question_alike_it_retrieves_and_a_question_is_not_like_itself(question: str) -> None:
    prediction = labelled()(question=question)
    assert outcomes(prediction) == ["no train question is like this one: retrieve"]
    assert [prediction.counters[name] for name in ("retrieved", "skr_bm25", "skr_alone")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("better", "worse", "all_better", "all_worse", "rule", "expected"),
    [
        (4, 4, 47, 62, "majority", True),
        (3, 5, 47, 62, "majority", False),
        (4, 4, 47, 62, "margin", True),  # int(15 * 8 / 109) = 1
        (3, 5, 47, 62, "margin", False),
        (3, 5, 10, 90, "margin", True),  # int(80 * 8 / 100) = 6: worse must lead by 6
        (1, 7, 10, 90, "margin", False),
        (5, 3, 90, 10, "margin", False),
        (7, 1, 90, 10, "margin", True),
        (4, 4, 50, 50, "margin", False),
    ],
)
def test_the_rule_of_skr(
    better: int, worse: int, all_better: int, all_worse: int, rule: str, expected: bool
) -> None:
    assert should_retrieve(better, worse, all_better, all_worse, rule) is expected


def test_labels_are_checked_kept_in_copies_and_saved(tmp_path: Path) -> None:
    program = build_program("skr")
    for wrong in (("q", "same"), ("q",), (3, "better"), "qb"):
        with pytest.raises(UsageError, match="a question with 'better' or 'worse', found"):
            program.labels = [wrong]
    with pytest.raises(UsageError, match="two labels"):
        program.labels = [("q", "better"), ("q", "worse")]
    with pytest.raises(UsageError, match="learns labels, found 'marks'"):
        program.learned = {"marks": []}
    assert program.learned == {}
    program.labels = LABELS
    assert program.learned == {"labels": [["capital town", "worse"], ["river length", "better"]]}
    program.save(tmp_path / "state.json")
    loaded = build_program("skr")
    loaded.load(tmp_path / "state.json")
    for twin in (loaded, program.deepcopy(), program.reset_copy()):
        assert twin(question="capital?").counters["retrieved"] == 0


# What fit makes of train questions


def by_number(request: ChatRequest) -> str | dict[str, Any]:
    """Right with passages for Q0 and Q3, without them for Q1, always for Q2; Q3 is unreadable without."""
    prompt = " ".join(message.content for message in request.messages)
    number, passages = int(re.findall(r"Q(\d)", prompt)[-1]), read_passages(request)
    if number == 3 and not passages:
        return "{}"
    right = {0: bool(passages), 1: not passages}.get(number, True)
    return {"answer": "yes" if right else "no"}


def questions(*numbers: int) -> list[Question]:
    return [Question(str(i), f"Q{i}?", ("yes",)) for i in numbers]


def test_fit_compares_both_answers_of_all_questions_at_once_and_leaves_ties_out() -> None:
    target = ScriptedTarget(by_number, hold=True)
    program = build_program("skr", target)
    with counting(Counters()) as spent:
        asyncio.run(program.fit(questions(0, 1, 2, 3), Scorer.of(metrics.get("em"))))
    assert program.labels == (("Q0?", "better"), ("Q1?", "worse"), ("Q3?", "better"))
    assert (target.peak, spent.searches, spent.lm_calls) == (8, 4, 4 * 2 + 1)


def test_fit_answers_with_the_demonstrations_that_are_shown_and_labels_anew() -> None:
    target = ScriptedTarget(by_number)
    program = labelled(target=target)
    program.closed.demos = [{"question": "D?", "answer": "d"}]
    asyncio.run(program.fit(questions(1), Scorer.of(metrics.get("em"))))
    assert program.labels == (("Q1?", "worse"),)
    assert sorted(len(request.messages) for request in target.requests) == [2, 4]
    asyncio.run(program.fit(questions(2), Scorer.of(metrics.get("em"))))
    assert program.labels == ()


def test_fit_heeds_which_way_a_metric_is_better_and_where_it_does_not_apply() -> None:
    em = metrics.get("em")

    def wrong(outcome: Any) -> float | None:
        return None if outcome.extra.get("skip") else 1 - (em.score(outcome) or 0)

    metric = Metric("wrong", "share of wrong answers", "share", False, wrong)
    program = build_program("skr", ScriptedTarget(by_number))
    skipped = Question("1", "Q1?", ("yes",), extra={"skip": True})
    asyncio.run(program.fit([*questions(0), skipped], Scorer.of(metric)))
    assert program.labels == (("Q0?", "better"),)


# Self-Eval


@pytest.mark.parametrize(("need", "passages"), [(True, [0, 1, 2]), (False, [])])
def test_self_eval_retrieves_when_the_model_says_so(need: bool, passages: list[int]) -> None:
    target = ScriptedTarget([{"need": need}, {"answer": "x"}], hold=True)
    prediction = build_program("self_eval", target)(question="Q?")
    assert read_passages(target.requests[1]) == passages
    assert prediction.counters["retrieved"] == prediction.counters["searches"] == int(need)
    assert (prediction.counters["lm_calls"], target.steps, target.replies_left) == (2, 2, 0)


def test_a_gate_that_cannot_be_read_counts_as_a_need() -> None:
    prediction = build_program("self_eval", ScriptedTarget(["hm", "?", {"answer": "x"}]))(question="Q?")
    assert (len(prediction.passages), prediction.counters["retrieved"], prediction.counters["dropped"]) == (
        3,
        1,
        1,
    )
    assert outcomes(prediction)[0].startswith("unreadable")
