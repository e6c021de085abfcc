"""Demonstrations by predictor: a set and a number of its own for each, and the score that earned each."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.core import event_loop
from ragc.core.progress import Silent
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.search.storage import InMemoryAttributes, study_directory
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos

GATED = ('program="self_eval"', "search.knobs=[]", "search.demos=2")


def gated(request: ChatRequest) -> dict[str, Any]:
    """Asks for passages, and answers better when shown how."""
    if request.schema and "need" in request.schema["properties"]:
        return {"need": True}
    return needs_demos(request)


def builder_of(folder: Path, *sets: str, target: ScriptedTarget | None = None) -> ProgramBuilder:
    recipe = recipes.load(folder / "recipe.toml", (*GATED, *sets))
    task = prepare(recipe, store=CallStore(None), targets={"main": target or ScriptedTarget(gated)})
    return ProgramBuilder(task, InMemoryAttributes(), asyncio.Semaphore(8), Silent())


def test_a_program_shows_each_predictor_its_own(folder: Path) -> None:
    builder = builder_of(folder)
    assert builder.space.first.predictors == ("answer", "closed", "gate")
    base = replace(builder.space.baseline(), demos=2)
    same = event_loop.run(builder.program(base))
    own = event_loop.run(builder.program(base.with_own_demos("answer", 1, 2).with_own_demos("gate", 0, 3)))
    shown = {name: [list(p.demos) for p in (call, dict(own.named_predictors())[name])] for name, call in
             same.named_predictors()}  # fmt: skip
    assert [len(demos) for demos in shown["answer"]] == [2, 1]
    assert shown["answer"][1][0] not in shown["answer"][0][:1]
    assert [len(demos) for demos in shown["gate"]] == [2, 0]
    assert shown["closed"][0] == shown["closed"][1]


def test_a_compiled_program_says_what_each_demonstration_earned(run: Run, folder: Path) -> None:
    run(sets=(*GATED, "search.trials=12"), target=ScriptedTarget(gated), store=CallStore(None))
    state = load(folder / "out").state
    search = json.loads((folder / "out" / "provenance.json").read_text("utf-8"))["search"]
    scores = search["demonstrations"]
    assert {name: len(one.demos) for name, one in state.predictors.items() if one.demos} == {
        name: len(earned) for name, earned in scores.items()
    }
    assert all(score is None or score >= 0.75 for earned in scores.values() for score in earned)
    trials = json.loads((study_directory(folder / "out") / "trials.json").read_text("utf-8"))
    candidates = [trial["candidate"] for trial in trials]
    assert any("own_demos" in one for one in candidates)
    assert len({json.dumps(one, sort_keys=True) for one in candidates}) == len(candidates)
