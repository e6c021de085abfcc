"""RQ-RAG's choice among trajectories by log probabilities: on scripted targets, and on plain numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from ragc.errors import CapabilityMissing, ParseFailure
from ragc.programs.rqrag import BY_LOGPROBS
from ragc.signatures.query import RewriteQuery
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ScriptedTarget
from tests.programs.rqrag.common import (
    BOTH,
    FORK,
    build_program,
    fork,
    is_for,
    worded,
)


def test_all_answers_are_candidates_so_that_a_metric_can_take_the_best() -> None:
    target = ScriptedTarget(
        fork(root={"answer": "Lyon"}, rewrite={"answer": "Nice"}, decompose={"answer": "Rome"})
    )
    assert build_program(target, **FORK)(question="Capital?").candidates == ("Lyon", "Nice", "Rome")


LYON, PARIS, THE_PARIS = math.log(0.9), math.log(0.6), math.log(0.5)


@pytest.mark.parametrize(
    ("select", "answer", "shown"),
    [("conf", "Lyon", 0), ("ensemble", "Paris", 3)],
)
def test_confidence_takes_the_surest_answer_and_the_ensemble_adds_equal_ones(
    select: str, answer: str, shown: int
) -> None:
    target = ScriptedTarget(
        fork(
            root=worded("answer", "Lyon", LYON),
            rewrite=worded("answer", "Paris", PARIS),
            decompose=worded("answer", "the Paris.", THE_PARIS),
        )
    )
    prediction = build_program(target, **FORK, select=select)(question="Capital?")
    assert (prediction.answer, len(prediction.passages)) == (answer, shown)
    assert all(r.logprobs for r in target.requests)
    assert str(prediction.trace[-1].outcome).startswith(
        f"{1 if answer == 'Lyon' else 2} of 3 by {select}: {answer}"
    )
    assert prediction.trace[-1].outcome.endswith("(scores: 0.9, 0.6, 0.5)")


@pytest.mark.parametrize(("sure", "answer"), [(0.0, "Paris"), (-3.0, "Lyon")])
def test_perplexity_counts_the_queries_of_the_path_too(sure: float, answer: str) -> None:
    answers = fork(
        root=worded("answer", "Lyon", LYON),
        rewrite=worded("answer", "Paris", PARIS),
        decompose=worded("answer", "Rome", -5.0),
    )

    def reply(request: ChatRequest) -> Any:
        return worded("query", "nine", *[sure] * 4) if is_for(request, RewriteQuery) else answers(request)

    target = ScriptedTarget(reply)
    assert build_program(target, **FORK, select="ppl")(question="Capital?").answer == answer
    assert all(request.logprobs for request in target.requests)


@pytest.mark.parametrize("knobs", [{"select": "ppl"}, {"select_for": "hotpotqa"}, {"select_for": "popqa"}])
def test_the_way_out_leads_out_and_names_no_more_than_is_needed(knobs: dict[str, Any]) -> None:
    plain = ScriptedTarget(lambda r: BOTH, capabilities=("schema",))
    with pytest.raises(CapabilityMissing) as refused:
        build_program(plain, **knobs)
    way_out = dict(re.findall(r"(\w+)=(\w+)", str(refused.value).partition("; set ")[2]))
    assert way_out.keys() == {"select", *knobs}
    assert build_program(plain, **{**knobs, **way_out})(question="Capital?").answer == "a"


@pytest.mark.parametrize("conf_by", ["mean", "product"])
def test_where_the_answer_is_not_found_the_whole_reply_stands_in_and_is_counted(conf_by: str) -> None:
    raw = '{"answer": 2.50}'  # read as 2.5
    mended = Reply(raw, logprobs=tuple(TokenLogprob(char, math.log(0.7)) for char in raw))
    target = ScriptedTarget(
        fork(root=worded("answer", "Oslo", math.log(0.6)), rewrite=mended), capabilities=("logprobs",)
    )
    knobs = {"max_depth": 1, "width": "rewrite", "select": "conf", "conf_by": conf_by}
    prediction = build_program(target, **knobs)(question="Capital?")
    assert (prediction.answer, prediction.counters["unspelled"]) == ("2.5", 1)
    assert prediction.trace[-1].outcome.endswith("(scores: 0.6, 0.7)")


def test_an_answer_that_cannot_be_read_is_left_out_and_none_at_all_is_an_error() -> None:
    target = ScriptedTarget(fork(root="?", rewrite={"answer": "Nice"}, decompose={"answer": " "}))
    prediction = build_program(target, **FORK)(question="Capital?")
    assert (prediction.answer, prediction.candidates, prediction.counters["dropped"]) == (
        "Nice",
        ("Nice", ""),
        1,
    )
    with pytest.raises(ParseFailure, match="No trajectory ended in an answer"):
        build_program(ScriptedTarget(lambda r: "?"), **FORK)(question="Capital?")


@pytest.mark.parametrize(("by", "answer"), [("mean", "Nice, France"), ("product", "Lyon")])
@pytest.mark.parametrize("select", ["conf", "ensemble"])
def test_confidence_is_the_mean_or_the_product_of_the_tokens(select: str, by: str, answer: str) -> None:
    likely = math.log(0.7)
    target = ScriptedTarget(
        fork(
            root=worded("answer", "Lyon", math.log(0.6)),
            rewrite=worded("answer", "Nice, France", likely, likely),
            decompose=worded("answer", "Rome", math.log(0.1)),
        )
    )
    assert build_program(target, **FORK, select=select, conf_by=by)(question="Capital?").answer == answer


def test_equal_answers_add_up_with_products_too() -> None:
    target = ScriptedTarget(
        fork(
            root=worded("answer", "Lyon", math.log(0.6)),
            rewrite=worded("answer", "Paris", math.log(0.4)),
            decompose=worded("answer", "paris", math.log(0.4)),
        )
    )
    assert build_program(target, **FORK, conf_by="product")(question="Capital?").answer == "Paris"


def test_every_choice_by_log_probabilities_sends_the_same_requests() -> None:
    requests = []
    for select in BY_LOGPROBS:
        target = ScriptedTarget(lambda r: BOTH)
        build_program(target, select=select)(question="Capital?")
        requests.append(sorted(map(repr, target.requests)))
    assert requests[0] == requests[1] == requests[2]


@pytest.mark.parametrize(("reasons", "answer"), [(0.0, "Lyon"), (-9.0, "Nice")])
def test_perplexity_counts_the_reasoning_too(reasons: float, answer: str) -> None:
    def reasoned(town: str, reason: float, sure: float) -> Callable[[ChatRequest], Reply]:
        keys = ('{"reasoning": "', '", "answer": "', '"}')
        parts = [(keys[0], -9.0), ("so", reason), (keys[1], -9.0), (town, sure), (keys[2], -9.0)]
        reply = Reply("".join(text for text, _ in parts), logprobs=tuple(TokenLogprob(*p) for p in parts))
        return lambda request: reply

    target = ScriptedTarget(fork(root=reasoned("Lyon", reasons, -0.1), rewrite=reasoned("Nice", -1.0, -1.0)))
    prediction = build_program(target, max_depth=1, width="rewrite", select="ppl", cot=True)(
        question="Capital?"
    )
    assert prediction.answer == answer


@pytest.mark.parametrize("spelling", ["(b)", "B.", " b ", "[B]"])
@pytest.mark.parametrize("select", ["conf", "ensemble"])
def test_an_option_in_other_spelling_keeps_its_confidence(select: str, spelling: str) -> None:
    sure = worded("answer", spelling, *[math.log(0.99)] * len(spelling))
    reply = fork(root=worded("answer", "A", math.log(0.4)), decompose=sure)
    target = ScriptedTarget(reply, capabilities=("logprobs",))
    knobs = {"max_depth": 1, "width": "decompose", "answer_format": "choice", "select": select}
    prediction = build_program(target, **knobs)(question="Which? A) x B) y")
    assert prediction.answer == "B"
    assert prediction.trace[-1].outcome.endswith("(scores: 0.4, 0.99)")
