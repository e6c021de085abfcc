"""Replicates: answers drawn several times say how much of the variance of scores is the model's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled import evaluate
from ragc.compiled.evaluate import Evaluation
from ragc.compiled.opened import open_program
from ragc.metrics.stats.replicates import variance_shares
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, colour_of, written

WARM = ("knobs.temperature=0.7",)


def even(request: ChatRequest) -> bool:
    return sum(map(ord, request.messages[-1].content)) % 2 == 0


def scored(folder: Path, target: ScriptedTarget, replicates: int, sets: Sequence[str] = WARM) -> Evaluation:
    written(folder, RECIPE)
    opened = open_program(
        folder / "recipe.toml", sets, store=CallStore(folder / "store"), targets={"main": target}
    )
    try:
        return evaluate.score(opened, "dev", replicates=replicates)
    finally:
        opened.close()


def draws() -> Any:
    """Right at about every second draw, for any question."""
    rng = random.Random(3)
    return lambda request: {"answer": colour_of(request) if rng.random() < 0.5 else "no colour"}


def by_question(request: ChatRequest) -> dict[str, Any]:
    """Right or wrong by question, always the same."""
    return {"answer": colour_of(request) if even(request) else "no colour"}


def test_what_differs_between_draws_is_the_models_own(tmp_path: Path) -> None:
    shares = scored(tmp_path, ScriptedTarget(draws()), 4).variances["em"]
    assert (shares.n, shares.replicates) == (20, 4)
    assert shares.share is not None
    assert shares.low <= shares.share <= shares.high
    assert shares.share > 0.6


def test_what_never_differs_is_between_questions(tmp_path: Path) -> None:
    shares = scored(tmp_path, ScriptedTarget(by_question), 3).variances["em"]
    assert shares.within == 0
    assert (shares.share, shares.error) == (0.0, 0.0)


def test_each_draw_is_a_recording_of_its_own_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    first, second, third = (ScriptedTarget(draws()) for _ in range(3))
    once = scored(tmp_path, first, 2)
    assert len(first.requests) == 40
    more = scored(tmp_path, second, 3)
    assert len(second.requests) == 20  # only the third draw is new
    assert more.metrics == once.metrics  # they are of the first draw
    again = scored(tmp_path, third, 3)
    assert not third.requests
    assert again.variances == more.variances


JUDGED = RECIPE + '[targets.judge]\nkind = "embedded"\n'
QUESTIONS_JUDGED = 20


def judged(
    folder: Path, judge: ScriptedTarget, again: int, report: str = "['judge_acc']"
) -> Evaluation:  # fmt: skip
    written(folder, JUDGED)
    wrong = ScriptedTarget(lambda request: {"answer": "as I see it " + colour_of(request)})
    opened = open_program(
        folder / "recipe.toml",
        [f"metrics.report={report}", "search.objectives=['judge_acc']"],
        store=CallStore(folder / "store"),
        targets={"main": wrong, "judge": judge},
    )
    try:
        return evaluate.score(opened, "dev", again=again)
    finally:
        opened.close()


def test_a_judge_that_repeats_itself_is_told(tmp_path: Path) -> None:
    judge = ScriptedTarget(lambda _: {"correct": True})
    verdicts = judged(tmp_path, judge, 8).second_verdicts["judge_acc"]
    assert len(judge.requests) == QUESTIONS_JUDGED + 8
    assert (verdicts.changed.mean, verdicts.changed.n) == (0.0, 8)
    assert "scored all 8 answers the same" in verdicts.text
    assert "not that it is right" in verdicts.text


def test_a_judge_that_never_agrees_with_itself_is_told(tmp_path: Path) -> None:
    sent: list[str] = []

    def turning(request: ChatRequest) -> dict[str, Any]:
        sent.append(request.messages[-1].content)
        return {"correct": sent.count(sent[-1]) == 1}

    verdicts = judged(tmp_path, ScriptedTarget(turning), 8).second_verdicts["judge_acc"]
    assert verdicts.changed.mean == 1.0
    assert "scored none of 8 answers the same; its scores say nothing" in verdicts.text


def test_second_verdicts_are_recordings_and_change_no_score(tmp_path: Path) -> None:
    rng = random.Random(2)
    judge = ScriptedTarget(lambda _: {"correct": rng.random() < 0.7})
    plain, sampled = judged(tmp_path, judge, 0), judged(tmp_path, judge, 20)
    sent = len(judge.requests)
    again = judged(tmp_path, judge, 20)
    assert len(judge.requests) == sent == 2 * QUESTIONS_JUDGED
    assert plain.metrics == sampled.metrics == again.metrics
    assert sampled.second_verdicts == again.second_verdicts
    verdicts = sampled.second_verdicts["judge_acc"]
    assert 0 < verdicts.changed.mean < 1
    assert "the interval of the mean holds it already" in verdicts.text
    assert sampled.to_json()["judged_again"]["judge_acc"]["n"] == QUESTIONS_JUDGED
    assert "judged_again" not in plain.to_json()


def test_components_are_recovered() -> None:
    rng = random.Random(1)
    levels = [rng.gauss(0, 1) for _ in range(2000)]
    shares = variance_shares([[level + rng.gauss(0, 0.5) for _ in range(3)] for level in levels], seed=1)
    assert shares is not None
    assert shares.between == pytest.approx(1, rel=0.1)
    assert shares.within == pytest.approx(0.25, rel=0.1)
    assert shares.low < 0.2 < shares.high
