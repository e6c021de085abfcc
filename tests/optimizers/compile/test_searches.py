"""What a study may choose beside knobs: programs, targets, instructions, and among several objectives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.errors import RecipeError
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.storage import study_directory
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, Run, colour_of, identical
from tests.optimizers.search.test_tell import three_suffice

PLAIN = ("search.demos=0", "search.trials=8", 'search.knobs=["top_k"]')


def trials_of(folder: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(
        (study_directory(folder / "out") / "trials.json").read_text("utf-8")
    )
    return records


def reader(request: ChatRequest) -> dict[str, Any]:
    return {"answer": colour_of(request)}


def confused(request: ChatRequest) -> dict[str, Any]:
    return {"answer": "red"}


def test_the_program_that_answers_best_is_compiled(run: Run, folder: Path) -> None:
    sets = (*PLAIN, "program=no_retrieval", 'search.programs=["vanilla"]')
    result = run(sets=sets, target=ScriptedTarget(reader))
    assert result.verdict == "better"
    assert load(folder / "out").state.method == "vanilla"
    tried = trials_of(folder)
    assert tried[0]["candidate"]["program"] == "no_retrieval"
    assert tried[1]["candidate"]["program"] == "vanilla"
    again = open_program(
        folder / "out", store=CallStore(folder / "store"), targets={"main": ScriptedTarget([])}
    )
    assert score(again, "dev").metrics["em"].mean == 1


def test_the_target_that_answers_best_plays_the_role(run: Run, folder: Path) -> None:
    text = RECIPE.replace("[targets.main]", '[targets.other]\nkind = "embedded"\n[targets.main]')
    (folder / "recipe.toml").write_text(text + '[search.targets]\nmain = ["main", "other"]\n', "utf-8")
    recipe = recipes.load(folder / "recipe.toml", PLAIN)
    weak, strong = ScriptedTarget(confused), ScriptedTarget(reader, identity="strong")
    compiling.compile(
        recipe, folder / "out", store=CallStore(folder / "store"), targets={"main": weak, "other": strong}
    )
    assert load(folder / "out").state.targets == {"main": "other"}
    again = open_program(
        folder / "out",
        store=CallStore(folder / "store"),
        targets={"main": ScriptedTarget([]), "other": ScriptedTarget([], identity="strong")},
    )
    assert score(again, "test").metrics["em"].mean == 1


def test_instructions_that_help_are_found_kept_and_compiled(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    async def proposed(program: Any, task: Any, *, n: int) -> dict[str, tuple[str, ...]]:
        counts.append(n)
        own = {name: p.signature.instructions for name, p in program.named_predictors()}
        return {name: (text, "Answer badly.", "Name the colour only.") for name, text in own.items()}

    def follows(request: ChatRequest) -> dict[str, Any]:
        good = "Name the colour only." in request.messages[0].content
        return {"answer": colour_of(request) if good else "a colour"}

    monkeypatch.setattr("ragc.optimizers.candidates.instructions.propose.propose_instructions", proposed)
    sets = (*PLAIN, "search.instructions=2")
    assert run(sets=sets, target=ScriptedTarget(follows)).verdict == "better"
    state = load(folder / "out").state
    assert state.predictors["answer"].instructions == "Name the colour only."
    assert counts == [3]
    run("again", sets=sets, target=ScriptedTarget([]))
    assert identical(folder / "out", folder / "again")


def test_with_several_objectives_the_front_is_kept_and_pick_chooses(run: Run, folder: Path) -> None:
    sets = (*PLAIN, 'search.objectives=["em", "-tokens"]')
    run(sets=sets, target=ScriptedTarget(three_suffice))
    search = json.loads((folder / "out" / "provenance.json").read_text("utf-8"))["search"]
    front = {entry["candidate"]["knobs"]["top_k"]: entry["values"] for entry in search["front"]}
    assert min(front) == 1
    assert front[1]["em"] == 0
    best = load(folder / "out").state.knobs["top_k"]
    assert front[best]["em"] == 1
    assert all(front[k]["em"] < 1 or k == best for k in front)
    assert search["stopped"] > 0  # more passages than needed cost more and answer no better
    run("cheap", sets=(*sets, "search.pick=-tokens"), target=ScriptedTarget(three_suffice))
    assert load(folder / "cheap").state.knobs["top_k"] == 1


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ('search.programs=["vanila"]', "search.programs.0 must be .*vanilla"),
        ('search.targets.main=["other"]', "must list 'main'"),
        ('search.targets.main=["main", "other"]', r"names \[targets.other\], and there is no other target"),
        ('search.targets.boss=["boss"]', "target role"),
        ('search.knobs=["window"]', "window"),
    ],
)
def test_what_cannot_vary_is_told_with_its_place(folder: Path, sets: str, expected: str) -> None:
    with pytest.raises(RecipeError, match=expected):
        recipes.load(folder / "recipe.toml", (sets,))


def test_a_recipe_with_all_of_it_is_read_back_as_written(folder: Path) -> None:
    text = RECIPE.replace("[targets.main]", '[targets.other]\nkind = "embedded"\n[targets.main]')
    (folder / "recipe.toml").write_text(
        text + '[search.targets]\nmain = ["other", "main"]\n[search.ranges]\nk_support = [3, 4]\n', "utf-8"
    )
    recipe = recipes.load(folder / "recipe.toml", ('search.programs=["llatrieval", "vanilla"]',))
    assert recipe.search.programs == ("llatrieval",)
    assert recipe.search.targets == {"main": ("main", "other")}
    (folder / "again.toml").write_text(recipe.to_toml(), "utf-8")
    assert recipes.load(folder / "again.toml") == recipe
    assert {knob.name: knob.high for knob in recipe.space(recipe.methods[1])}["k_support"] == 4
