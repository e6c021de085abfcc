"""RQ-RAG choosing without log probabilities: votes, a judge, stated confidence; and multiple choice."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs.rqrag import program as selection
from ragc.signatures.query import AnswerPath, DecomposeQuery, RewriteQuery, TrajectoryJudge
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.programs.rqrag.common import (
    BOTH,
    FORK,
    build_program,
    classify_path,
    fork,
    is_for,
    select_requests,
)
from tests.support.requests import inputs_of


def test_a_tree_of_one_path_has_nothing_to_choose_and_asks_for_no_score() -> None:
    for select in ("vote", "judge", "confidence", "ensemble"):
        target = ScriptedTarget([{"answer": "A"}], capabilities=("schema",))
        program = build_program(target, max_depth=0, select=select)
        assert program(question="Capital?").answer == "A"


def test_a_vote_draws_each_answer_again_and_adds_the_shares() -> None:
    def wavering(request: ChatRequest) -> dict[str, Any]:
        return {"answer": "Lyon" if request.sample in (0, 1, 2) else f"other {request.sample}"}

    target = ScriptedTarget(fork(root=wavering, rewrite={"answer": "Paris"}, decompose={"answer": "Rome"}))
    prediction = build_program(target, max_depth=1, width="rewrite", select="vote", n_conf_samples=4)(
        question="Capital?"
    )
    assert prediction.answer == "Paris"
    requests = select_requests(target, AnswerPath)
    assert len(requests) == prediction.counters["lm_calls"] - 1 == 2 * (1 + 4)
    assert sorted((r.sample, r.sampling.temperature) for r in requests if classify_path(r) == "root") == [
        (0, 0.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)
    ]  # fmt: skip
    assert not any(r.logprobs for r in target.requests)


@pytest.mark.parametrize(("pooled", "answer"), [(True, "Paris"), (False, "Lyon")])
def test_the_judge_scores_every_trajectory(pooled: bool, answer: str) -> None:
    main = fork(root={"answer": "Lyon"}, rewrite={"answer": "Paris"}, decompose={"answer": "paris"})
    target = ScriptedTarget(main)
    judge = ScriptedTarget(lambda r: {"reason": "so", "score": 80 if classify_path(r) == "root" else 50})
    prediction = build_program(target, judge=judge, **FORK, select="judge", pooled=pooled)(
        question="Capital?"
    )
    assert prediction.answer == answer
    assert len(select_requests(judge, TrajectoryJudge)) == len(judge.requests) == 3
    assert {inputs_of(r).rpartition("Answer: ")[2] for r in judge.requests} == {"Lyon", "Paris", "paris"}


def test_without_a_judge_the_main_model_scores() -> None:
    target = ScriptedTarget([{**BOTH, "reason": "so", "score": 3}] * 6)
    build_program(target, max_depth=1, width="rewrite", select="judge")(question="Capital?")
    assert (target.replies_left, len(select_requests(target, TrajectoryJudge))) == (1, 2)


def test_the_model_can_say_how_sure_it_is() -> None:
    def sure(answer: str, percent: int) -> dict[str, Any]:
        return {"answer": answer, "confidence": percent}

    target = ScriptedTarget(fork(root=sure("Lyon", 40), rewrite=sure("Nice", 90), decompose=sure("Rome", 70)))
    assert build_program(target, **FORK, select="confidence")(question="Capital?").answer == "Nice"
    schema = select_requests(target, AnswerPath)[0].schema
    assert schema is not None
    assert schema["properties"]["confidence"] == {"type": "integer", "minimum": 0, "maximum": 100}


def test_a_draw_or_a_judgement_that_cannot_be_read_counts_for_nothing() -> None:
    def draws(request: ChatRequest) -> Any:
        return "?" if request.sample else {"answer": "Lyon"}

    target = ScriptedTarget(fork(root=draws, rewrite={"answer": "Nice"}))
    prediction = build_program(target, max_depth=1, width="rewrite", select="vote", n_conf_samples=2)(
        question="Capital?"
    )
    assert (prediction.answer, prediction.counters["dropped"]) == ("Nice", 2)
    judge = ScriptedTarget(lambda r: {"reason": "so", "score": 1} if "none" in r.messages[1].content else "?")
    main = ScriptedTarget(fork(root={"answer": "Lyon"}, rewrite={"answer": "Nice"}))
    prediction = build_program(main, judge=judge, max_depth=1, width="rewrite", select="judge")(
        question="Capital?"
    )
    assert (prediction.answer, prediction.counters["dropped"]) == ("Lyon", 1)


def test_a_multiple_choice_is_answered_with_a_letter_and_equal_letters_are_one_answer() -> None:
    def text(letter: str) -> str:
        return f"[[ ## answer ## ]]\n{letter}\n\n[[ ## completed ## ]]"

    def reply(request: ChatRequest) -> str:
        if is_for(request, RewriteQuery) or is_for(request, DecomposeQuery):
            return "[[ ## query ## ]]\nq\n\n[[ ## completed ## ]]"
        return text("B")

    target = ScriptedTarget([{"answer": "A"}])
    knobs: dict[str, Any] = {"answer_format": "choice", "select": "vote", "n_conf_samples": 1}
    assert (
        build_program(target, max_depth=0, answer_format="choice")(question="Which? A) x B) y").answer == "A"
    )
    schema = target.requests[0].schema
    assert schema is not None
    assert schema["properties"]["answer"]["enum"] == ["A", "B", "C", "D", "E"]
    assert (
        build_program(ScriptedTarget(reply), **FORK, **knobs, layout="chat")(question="Which?").answer == "B"
    )
    for same in (["A", "A.", "(A)", "a"], ["B", "(B)", "B."]):
        assert len(selection.group_answers(same)) == 1
    assert len(selection.group_answers(["A", "B", "The"])) == 3
