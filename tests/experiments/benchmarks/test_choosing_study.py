"""The bench is the study: both pick the same setting, with the same expectation and after as many answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.benchmarks.search.choosing.kinds import kind_world
from experiments.benchmarks.search.choosing.table_study import study_picks
from experiments.benchmarks.search.choosing.worlds import World
from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import cases
from tests.support.rows import write_rows

MODULE = """
import dspy
import ragc


class Table(dspy.Module):
    {knobs}

    def __init__(self):
        super().__init__()
        self.answer = dspy.Predict("setting, question -> answer")

    def forward(self, question):
        setting = " ".join(f"<{{value}}>" for value in [{values}])
        return self.answer(setting=setting, question=question)
"""

SEED_AT_RISK = 4

RECIPE = """
program = "{module}:Table"
seed = {seed}
[search]
knobs = {names}
trials = {trials}
objectives = ["f1"]
[budget]
lm_calls = {budget}
[data]
dev = "dev.jsonl"
[targets.main]
kind = "embedded"
[metrics]
report = ["f1"]
"""


def compiled(world: World, seed: int, folder: Path, *sets: str) -> tuple[int, float, int]:
    """The setting that `ragc.compile` picks where a model answers as the table says, what it expects, and the
    requests that it sent."""
    columns = list(world.columns.items())
    base = world.settings[world.baseline]
    lines = [
        f"column{index} = ragc.number({base[name]!r}, {options[0]!r}, {options[-1]!r}, 'a column')"
        if isinstance(options[0], int)
        else f"column{index} = ragc.choice({base[name]!r}, {options!r}, 'a column')"
        for index, (name, options) in enumerate(columns)
    ]
    names = [f"column{index}" for index in range(len(columns))]
    module = f"table_{folder.name.replace('-', '_')}"
    text = MODULE.format(knobs="\n    ".join(lines), values=", ".join(f"self.{name}" for name in names))
    (folder / f"{module}.py").write_text(text, "utf-8")
    questions = [
        {"id": f"q{at}", "question": f"Question {at}?", "answers": ["yes"]} for at in range(world.shape[1])
    ]
    write_rows(folder / "dev.jsonl", questions)
    (folder / "recipe.toml").write_text(
        RECIPE.format(
            module=module, seed=seed, names=json.dumps(names), trials=len(world.settings) - 1,
            budget=world.budget,
        ),
        "utf-8",
    )  # fmt: skip

    def reply(request: ChatRequest) -> str:
        prompt = request.messages[-1].content
        values = re.findall(r"<([^<>]*)>", prompt)[-len(columns) :]
        codes = [[str(o) for o in options].index(v) for (_, options), v in zip(columns, values, strict=True)]
        question = int(re.findall(r"Question (\d+)\?", prompt)[-1])
        answer = "yes" if world.scores[world.nearest(codes), question] else "no"
        return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"

    target = ScriptedTarget(reply)
    result = compiling.compile(
        recipes.load(folder / "recipe.toml", sets),
        folder / "out",
        store=CallStore(None),
        targets={"main": target},
    )
    search = result.program.provenance["search"]
    knobs = search["candidate"]["knobs"]
    codes = [options.index(knobs[f"column{i}"]) for i, (_, options) in enumerate(columns)]
    return world.nearest(codes), search["expected"]["f1"]["value"], len(target.requests)


@pytest.mark.parametrize(("name", "seed", "share"), cases([("clusters", 3, 0.1), ("smooth", 4, 0.05)], 1))
def test_bench_and_compile_pick_the_same(name: str, seed: int, share: float, tmp_path: Path) -> None:
    world = kind_world(name, seed, share)
    setting, expected, requests = compiled(world, seed, tmp_path)
    pick = study_picks(world, seed, [0.15])["0.15"]
    assert setting == pick.setting
    assert expected == pytest.approx(pick.expected, abs=1e-6)
    assert requests <= world.budget


def test_a_study_may_take_the_risk_that_its_recipe_allows(tmp_path: Path) -> None:
    """The seed is one where the rule keeps the baseline and a free choice does not."""
    seed, world = SEED_AT_RISK, kind_world("third-order", SEED_AT_RISK, 0.05)
    picks = study_picks(world, seed, [0.15, 1.0])
    assert picks["0.15"].setting == world.baseline != picks["1"].setting
    setting, _, _ = compiled(kind_world("third-order", seed, 0.05), seed, tmp_path, "search.risk=1")
    assert setting == picks["1"].setting
