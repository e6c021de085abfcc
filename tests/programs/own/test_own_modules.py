"""A user's own DSPy module: declared values, compiled from a recipe and from a script, and kept from strangers."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from ragc import recipe as recipes
from ragc.errors import RagcError, RecipeError, UsageError
from ragc.optimizers import compile as compiling
from ragc.programs.base import RagProgram
from ragc.programs.own.program import OwnProgram
from ragc.records import Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.optimizers.integrations.test_dspy_at_home import EXAMPLES, Engine, exact

MODULE = '''
"""Loaded by a recipe."""

import pathlib

import dspy

import ragc

pathlib.Path(__file__).with_name("loaded").touch()


class Plan(dspy.Signature):
    """Write a search query."""

    question: str = dspy.InputField()
    query: str = dspy.OutputField()


class MyProgram(dspy.Module):
    """Plans, searches as often as it was set to, and answers."""

    rounds = ragc.number(1, 1, 3, "searches")
    share = ragc.number(0.5, 0.0, 1.0, "a share")
    shout = ragc.switch(False, "answer in capital letters")
    most_calls = 4

    def __init__(self):
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.answer = dspy.ChainOfThought("question, notes: list[str] -> answer")
        self.find = dspy.Retrieve(k=self.rounds)

    def forward(self, question):
        notes = []
        for _ in range(self.rounds):
            notes += self.find(self.plan(question=question).query).passages
        answer = self.answer(question=question, notes=notes).answer
        return dspy.Prediction(answer=answer.upper() if self.shout else answer, passages=notes)


class NoAnswer(dspy.Module):
    def __init__(self):
        super().__init__()
        self.plan = dspy.Predict(Plan)

    def forward(self, question):
        return self.plan(question=question)


class Needs(dspy.Module):
    def __init__(self, size):
        super().__init__()


class Empty(dspy.Module):
    pass


number = 3
'''

RECIPE = """
program = "my_package.my_module:MyProgram"

[search]
knobs = ["rounds", "shout"]
trials = 4
demos = 1

[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
train = 4
dev = 6
test = 2

[sources.local]
kind = "bm25"

[targets.main]
kind = "embedded"

[metrics]
report = ["em"]

[study]
keep = false
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    place = tmp_path / "recipes"
    (place / "my_package").mkdir(parents=True)
    (place / "my_package" / "__init__.py").write_text("", "utf-8")
    (place / "my_package" / "my_module.py").write_text(MODULE, "utf-8")
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"A{n}"]} for n in range(12)]
    passages = [{"id": f"p{n}", "title": "", "text": f"Number {n} is A{n}."} for n in range(12)]
    for name, items in (("questions", rows), ("corpus", passages)):
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, items)), "utf-8")
    (place / "recipe.toml").write_text(RECIPE, "utf-8")
    return place


def script(request: ChatRequest) -> dict[str, Any]:
    """Right where an example was shown."""
    names = list((request.schema or {}).get("properties", {}))
    number = re.findall(r"number (\d+)", request.messages[-1].content)[-1]
    shown = len(request.messages) > 2
    values = {
        "query": f"number {number}",
        "reasoning": "It says so.",
        "answer": f"A{number}" if shown else "no",
    }
    return {name: values[name] for name in names}


def test_a_module_of_a_recipe_is_searched_compiled_and_asked(folder: Path) -> None:
    recipe = recipes.load(folder / "recipe.toml")
    target = ScriptedTarget(script)
    result = compiling.compile(recipe, folder / "out", targets={"main": target})
    assert result.test["em"].mean == 1 > result.baseline["em"].mean
    state = json.loads((folder / "out" / "program.json").read_text("utf-8"))
    assert state["method"] == "my_package.my_module:MyProgram"
    assert {"rounds", "share", "shout", "layout"} <= set(state["knobs"])
    assert set(state["predictors"]) == {"plan", "answer.predict"}
    assert state["predictors"]["answer.predict"]["demos"]
    assert (folder / "out" / "prompts" / "plan.md").is_file()
    sent = len(target.requests)
    again = compiling.compile(recipe, folder / "out2", targets={"main": target})
    assert again.test == result.test
    assert len(target.requests) == sent


def test_declared_values_shape_the_module_and_retrieve_searches_the_source(folder: Path) -> None:
    recipe = recipes.load(folder / "recipe.toml")
    source, target = ListSource([Passage("p", "", "Number 7 is A7.")] * 5), ScriptedTarget(script)
    program = recipe.method.build(compiling_runtime(target, source), {"rounds": 2, "shout": True})
    prediction = program(question="What is number 7?")
    assert prediction.answer == "NO"
    assert prediction.counters["lm_calls"] == 3
    assert prediction.counters["searches"] == 2
    assert [event.to_json()["kind"] for event in prediction.trace].count("search") == 2
    assert len(prediction.passages) == 4
    assert program.most_calls() == 4
    assert [knob.name for knob in recipe.method.knobs.list_knobs()][-3:] == ["rounds", "share", "shout"]
    module = sys.modules["my_package.my_module"].MyProgram()
    assert (module.rounds, module.share, module.shout) == (1, 0.5, False), "plain values without ragc"
    with pytest.raises(UsageError, match="rounds must be between 1 and 3"):
        recipe.method.knobs.of({"rounds": 9})


def compiling_runtime(target: ScriptedTarget, source: Any) -> Any:
    from ragc.programs.runtime import Runtime

    return Runtime({"main": target}, {"local": source})


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("my_package.my_modul:MyProgram", RecipeError, "neither beside the recipe"),
        ("my_package.my_module:MyProgramm", RecipeError, "Did you mean 'MyProgram'"),
        ("my_package.my_module:number", RecipeError, "is int, no class of a dspy.Module"),
        ("my_package.my_module:Plan", RecipeError, "is Plan, no class of a dspy.Module"),
        ("my_package.my_module:Needs", UsageError, "cannot be built without arguments: TypeError"),
        ("my_package.my_module:Empty", UsageError, "has no predictors to compile"),
        ("my_package.my_module:NoAnswer", UsageError, "must give `answer`, and it gave query"),
        ("my_package/my_module.py", RecipeError, "No program is named"),
    ],
)
def test_what_is_no_program_is_one_sentence(
    folder: Path, name: str, kind: type[RagcError], says: str
) -> None:
    sets = [f"program={name}", "search.knobs=[]"]
    with pytest.raises(kind, match=says) as error:
        recipe = recipes.load(folder / "recipe.toml", sets)
        target = ScriptedTarget(script)
        compiling.compile(recipe, folder / "out", targets={"main": target})
    assert "\n" not in str(error.value)


def test_a_directory_from_elsewhere_imports_nothing_without_leave(folder: Path, tmp_path: Path) -> None:
    target = ScriptedTarget(script)
    compiling.compile(recipes.load(folder / "recipe.toml"), folder / "out", targets={"main": target})
    foreign = tmp_path / "foreign"
    shutil.copytree(folder / "out", foreign)
    shutil.copytree(folder / "my_package", foreign / "my_package")
    for file in ("corpus.jsonl", "questions.jsonl"):
        shutil.copy(folder / file, foreign / file)
    provenance = json.loads((foreign / "provenance.json").read_text("utf-8"))
    (foreign / "provenance.json").write_text(json.dumps({**provenance, "seed": 99}), "utf-8")
    (foreign / "my_package" / "loaded").unlink()
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]
    with pytest.raises(RagcError, match="--trust-code"):
        ragc.ask(foreign, "What is number 1?")
    assert not (foreign / "my_package" / "loaded").exists()


class Mine(dspy.Module):
    """A module in a script."""

    tries = ragc.number(1, 1, 2, "tries")

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        return dspy.Prediction(answer=self.answer(question=question).answer)


def test_compile_takes_a_module_of_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path))

    def reply(request: Any) -> str:
        number = re.findall(r"number (\d+)", str(request.messages[-1]))[-1]
        return json.dumps({"answer": f"A{number}" if len(request.messages) > 1 else "no"})

    engine = Engine(reply)
    lm = dspy.LM("scripted/own", engine=engine, cache=False)
    mine = Mine()
    optimizer = ragc.Compile(metric=exact, trials=2, demos=1, knobs=["tries"], budget={"lm_calls": 200})
    with pytest.raises(UsageError, match="Mine has no LM"):
        optimizer.compile(mine, trainset=EXAMPLES[:3], valset=EXAMPLES[3:])
    mine.set_lm(lm)
    compiled = optimizer.compile(mine, trainset=EXAMPLES[:3], valset=EXAMPLES[3:])
    assert isinstance(compiled, RagProgram)
    assert isinstance(compiled, OwnProgram)
    assert compiled.module.answer.demos
    assert compiled(question="What is number 5?").answer == "A5"
    assert mine.answer.demos == [], "the module that was given stays as it was"
