"""Metrics of the user's own: found beside the recipe, called, optimized, and told by name where they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.compiled import trust
from ragc.compiled.access import Access
from ragc.errors import RagcError, RecipeError, Untrusted, UsageError
from ragc.optimizers import compile as compiling
from ragc.recipe import Recipe
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, write_files

RECIPE = recipe_toml(
    search={"trials": 2, "knobs": ["top_k"]},
    data={"dev": 4, "test": 2},
    metrics=["my_metrics:score", "em"],
)

METRIC = """
from my_words import LONGEST

def score(prediction, question):
    assert question.answers and question.extra["level"] == "easy"
    assert all(passage.text for passage in prediction.passages)
    return min(len(prediction.answer), LONGEST) / LONGEST

async def awaited(prediction, question):
    return True

def huge(prediction, question):
    return 10**5000

def great(prediction, question):
    return 7

def text(prediction, question):
    return "0.5"

def partly(prediction, question):
    return -7 if question.question in ("What is 0?", "What is 1?") else None

async def steps(prediction, question, *, trace=None):
    return {"score": 0.25 if trace is None else 0.75}

def broken(prediction, question):
    raise ValueError("no such key")

def narrow(prediction):
    return 1.0

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    rows = [
        {"id": f"q{n}", "question": f"What is {n}?", "answers": [f"A{n}"], "level": "easy"} for n in range(6)
    ]
    passages = [{"id": f"p{n}", "title": "", "text": f"What is {n}? It is A{n}."} for n in range(6)]
    write_files(tmp_path, recipe=RECIPE, questions=rows, corpus=passages)
    (tmp_path / "my_metrics.py").write_text(METRIC, "utf-8")
    (tmp_path / "my_words.py").write_text("LONGEST = 10\n", "utf-8")
    return tmp_path


def load(folder: Path, *sets: str) -> Recipe:
    return recipes.load(folder / "recipe.toml", sets)


def compiled(folder: Path, *sets: str) -> Any:
    def script(request: ChatRequest) -> dict[str, Any]:
        return {"answer": "12345"}

    target = ScriptedTarget(script)
    return compiling.compile(load(folder, *sets), folder / "out", targets={"main": target})


def test_a_metric_beside_the_recipe_is_reported_and_optimized(folder: Path) -> None:
    result = compiled(folder)
    assert result.test["my_metrics:score"].mean == pytest.approx(0.5)
    assert set(result.test) == {"my_metrics:score", "em"}
    assert load(folder).search.objectives == ("my_metrics:score",)
    provenance = json.loads((folder / "out" / "provenance.json").read_text("utf-8"))
    assert provenance["backends"]["my_metrics:score"].startswith("my_metrics:score ")


def test_a_study_does_not_go_on_with_another_metric_of_that_name(folder: Path) -> None:
    target = ScriptedTarget(lambda request: {"answer": "12345"})
    recipe = load(folder)
    compiling.compile(recipe, folder / "out", targets={"main": target})
    (folder / "my_metrics.py").write_text("def score(prediction, question):\n    return 0.25\n", "utf-8")
    with pytest.raises(UsageError, match="The metrics of the recipe changed since the study began"):
        compiling.compile(recipe, folder / "out", targets={"main": target}, resume=True)


def test_own_metric_may_give_any_number_or_a_truth_value_and_be_awaited(folder: Path) -> None:
    names = ("my_metrics:great", "my_metrics:steps", "my_metrics:awaited")
    result = compiled(folder, f"metrics.report={json.dumps(names)}")
    assert [result.test[name].mean for name in names] == [7, 0.25, 1]


def test_own_metric_without_a_score_is_a_failure_of_its_question(folder: Path) -> None:
    sets = ('metrics.report=["my_metrics:partly"]', "data.dev=5", "data.test=1", "search.trials=1")
    compiled(folder, *sets)
    failures = json.loads((folder / "out" / "provenance.json").read_text("utf-8"))["failures"]["dev"]
    assert failures["baseline"]["kinds"] == {"unscored": failures["baseline"]["n"]}
    assert 3 <= failures["baseline"]["n"] <= 4
    assert "'my_metrics:partly' gave None" in failures["baseline"]["reasons"][0]["reason"]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("my_metrix:score", UsageError, "names the module 'my_metrix', which is neither beside the recipe"),
        ("my_metrics:scor", UsageError, "'scor', which is not in 'my_metrics'. Did you mean 'score'"),
        ("my_metrics:number", UsageError, "is int, no function"),
        ("my_metrics:narrow", UsageError, r"called as \(prediction, question\), and too many"),
        ("my_metrics:huge", UsageError, "'my_metrics:huge' gave inf, which is no number; return one, as for"),
        ("my_metrics:text", UsageError, "gave '0.5', which is no number; .* all of the first 4 questions"),
        ("my_metrics:broken", UsageError, "raised ValueError: no such key, as for all of the first 4 quest"),
        ("my_metrics:", RecipeError, "written module:function"),
        ("bad_syntax:score", UsageError, "cannot be imported: SyntaxError"),
        ("exits:score", UsageError, "cannot be imported: SystemExit: 3; mend the module 'exits'"),
        ("my_metrics.py:score", UsageError, "names a file; name the module, my_metrics:score"),
        ("needs:score", UsageError, "imports 'not_there_at_all', which is not installed"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_with_its_name(
    folder: Path, name: str, kind: type[RagcError], says: str
) -> None:
    (folder / "bad_syntax.py").write_text("def score(:\n", "utf-8")
    (folder / "exits.py").write_text("import sys\nsys.exit(3)\n", "utf-8")
    (folder / "needs.py").write_text("import not_there_at_all\n", "utf-8")
    with pytest.raises(kind, match=says) as error:
        compiled(folder, f'metrics.report=["{name}"]')
    assert "\n" not in str(error.value)


def test_a_directory_from_elsewhere_must_not_import_it(folder: Path) -> None:
    recipe = load(folder)
    with pytest.raises(Untrusted, match=r"runs programs \(metrics.report = 'my_metrics:score'\).*code=True"):
        trust.refuse(recipe, folder, where=folder, typed=[("targets",), ("study",)])
    trust.refuse(recipe, folder, where=folder, typed=[("targets",), ("study",)], access=Access(code=True))
    set_by_user = [("targets",), ("study",), ("metrics", "report")]
    trust.refuse(recipe, folder, where=folder, typed=set_by_user)
