"""Metrics that ask a judge, in a recipe: who is asked, what it costs, what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.evaluate import Evaluation, score
from ragc.compiled.opened import open_program
from ragc.errors import UsageError
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, write_files

RECIPE = recipe_toml(data={"dev": 3})
JUDGE = '[targets.judge]\nkind = "embedded"\n'
ANSWERS = {"one": "red", "two": "scarlet", "three": "I don't know"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": n, "question": f"Which colour is {n}?", "answers": ["red"]} for n in ANSWERS]
    passage = {"id": "d1", "title": "T", "text": "colour red"}
    return write_files(tmp_path, questions=rows, corpus=[passage])


def answers(request: ChatRequest) -> str:
    prompt = request.messages[-1].content
    return json.dumps({"answer": next(reply for name, reply in ANSWERS.items() if name in prompt)})


def evaluated(folder: Path, metrics: str, *, judge: Any = None) -> Evaluation:
    path = folder / "recipe.toml"
    path.write_text(RECIPE + (JUDGE if judge else "") + f"[metrics]\n{metrics}\n", "utf-8")
    targets: Any = {"main": ScriptedTarget(answers)} | ({"judge": judge} if judge else {})
    return score(open_program(path, store=CallStore(None), targets=targets), "dev")


def test_a_judge_is_asked_once_a_question_and_its_cost_is_not_the_programs(folder: Path) -> None:
    judge = ScriptedTarget([json.dumps({"correct": True})])
    evaluation = evaluated(
        folder, 'report = ["crag_score", "crag_acc", "crag_miss", "lm_calls"]', judge=judge
    )
    assert judge.replies_left == 0  # "scarlet" alone: the others are exact and missing
    means = {name: round(interval.mean, 3) for name, interval in evaluation.metrics.items()}
    assert means == {"crag_score": 0.667, "crag_acc": 0.667, "crag_miss": 0.333, "lm_calls": 1.0}
    assert evaluation.counters["lm_calls"] == 4
    fields = evaluation.to_json()
    assert fields["judging"]["lm_calls"] == 1
    assert fields["backends"]["crag"].startswith("judge ")
    assert fields["decided"]["crag"] == {"exact": 1, "judge": 1, "missing": 1}
    assert {row.question.id: row.to_json()["found"]["crag"]["by"] for row in evaluation.rows} == {
        "one": "exact",
        "two": "judge",
        "three": "missing",
    }


def test_scores_without_gold_answers_say_what_the_judge_did_not_answer(folder: Path) -> None:
    replies = {
        "red": {"facts": ["The colour is red."]},
        "scarlet": {"facts": ["It is scarlet, from 1920."]},
        "don't know": {"facts": []},
    }

    def judge(request: ChatRequest) -> str:
        prompt = request.messages[-1].content
        return json.dumps(next(reply for word, reply in replies.items() if word in prompt))

    evaluation = evaluated(folder, 'report = ["faithfulness"]', judge=ScriptedTarget(judge))
    assert evaluation.metrics["faithfulness"].mean == 0.5
    assert evaluation.metrics["faithfulness"].n == 2
    assert "faithfulness has no score for 1 of 3 questions: these state no claim." in evaluation.remark
    assert evaluation.to_json()["decided"]["faithfulness"] == {"judge": 2, "no_claims": 1}
    assert evaluation.judging["lm_calls"] == 3
    assert evaluation.backends["faithfulness"].endswith("entailment lexical 0.65")


def test_without_a_judge_only_exact_answers_count_and_the_report_says_so(folder: Path) -> None:
    evaluation = evaluated(folder, 'report = ["crag_acc", "crag_halluc"]')
    assert round(evaluation.metrics["crag_acc"].mean, 3) == 0.333
    assert evaluation.backends["crag"].startswith("exact answers only")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ('report = ["judge_acc"]', "targets.judge"),
        ('report = ["crag_acc"]\ncrag_judge = "meta"', "targets.judge"),
        ('report = ["alce_cite_f1"]\nentailment = "judge"', "targets.judge"),
    ],
)
def test_a_metric_that_needs_a_judge_says_so_before_anything_is_sent(
    folder: Path, metrics: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        evaluated(folder, metrics)


def test_a_pooled_figure_is_made_of_the_means_of_others(folder: Path) -> None:
    evaluation = evaluated(folder, 'report = ["alce_cite_f1"]')
    assert set(evaluation.metrics) == {"alce_cite_f1", "alce_cite_recall", "alce_cite_precision"}
    assert evaluation.metrics["alce_cite_f1"].mean == 0
    assert "lexical" in evaluation.backends["alce_citations"]
