"""Questions without gold answers are read where no metric compares with one, and refused where one does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.errors import DataError, UsageError
from ragc.targets.base import ChatRequest
from ragc.targets.embedded import target as embedded
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, write_files

RECIPE = recipe_toml(
    search={"knobs": ["top_k"], "trials": 3},
    data={"dev": 12, "test": 8},
    targets=["main", "judge"],
    metrics=["context_precision", "tokens"],
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(request: ChatRequest) -> str:
        judged = "useful" in json.dumps(request.schema or {})
        return json.dumps({"useful": "red" in request.messages[-1].content} if judged else {"answer": "red"})

    record = replace(embedded.KIND, build=lambda *_: ScriptedTarget(reply))
    monkeypatch.setattr("ragc.targets.embedded.target.KIND", record)
    monkeypatch.chdir(tmp_path)
    texts = [f"What is {at}? It is {'red' if at % 2 else 'blue'}." for at in range(20)]
    write_files(
        tmp_path,
        questions=[{"id": f"q{at}", "question": f"What is {at}?"} for at in range(20)],
        corpus=[{"id": f"p{at}", "title": "", "text": text} for at, text in enumerate(texts)],
    )


def compiled(recipe: str) -> Any:
    Path("recipe.toml").write_text(recipe)
    return ragc.compile("recipe.toml", out="compiled")


def test_a_recipe_is_compiled_without_any_gold_answer() -> None:
    result = compiled(RECIPE)
    assert result.test["context_precision"].n == 8
    assert ragc.evaluate("compiled", include_seen=True).metrics["context_precision"].mean >= 0


def test_answers_in_columns_may_be_blank_too() -> None:
    lines = ["qid,query,gold", *(f"q{at},What is {at}?," for at in range(20))]
    Path("questions.csv").write_text("\n".join(lines))
    fields = '[data.fields]\nid = "qid"\nquestion = "query"\nanswers = "gold"\n[sources.local]'
    table = RECIPE.replace("questions.jsonl", "questions.csv").replace("[sources.local]", fields)
    assert compiled(table).test["context_precision"].n == 8


def test_a_metric_that_compares_with_gold_answers_refuses_them() -> None:
    with pytest.raises(DataError, match="`answers` is missing"):
        compiled(RECIPE.replace('"tokens"', '"f1"'))


def test_programs_learn_from_questions_with_answers_only() -> None:
    with pytest.raises(UsageError, match="4 train questions have no gold answer"):
        compiled(
            RECIPE.replace("dev = 12", "train = 4\ndev = 8").replace("trials = 3", "trials = 3\ndemos = 2")
        )
