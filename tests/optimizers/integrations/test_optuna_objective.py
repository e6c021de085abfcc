"""A recipe inside somebody's own Optuna script."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import optuna
import pytest

from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.errors import UsageError
from ragc.optimizers.integrations.optuna_objective import Objective, study
from ragc.optimizers.status import status
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Watch
from ragc.testing import ScriptedTarget
from tests.optimizers.search.test_tell import three_suffice

SETS = ("search.demos=0", 'search.knobs=["top_k"]', "search.ranges.top_k=[1, 4]")


def objective(folder: Path, target: ScriptedTarget, *sets: str) -> Objective:
    recipe = recipes.load(folder / "recipe.toml", (*SETS, *sets))
    return Objective(recipe, store=CallStore(folder / "store"), targets={"main": target})


def test_a_study_of_ones_own_finds_saves_and_goes_on(home: Path, folder: Path) -> None:
    target = ScriptedTarget(three_suffice)
    score = objective(folder, target)
    optuna_study = study(score.task.recipe)
    optuna_study.optimize(score, n_trials=8)
    assert optuna_study.best_value == 1
    assert optuna_study.trials[0].params == {"knob.top_k": score.task.baseline_knobs["top_k"]}
    assert optuna_study.best_trial.params["knob.top_k"] >= 3
    assert (
        score.candidate(optuna_study.best_trial).knobs["top_k"]
        == optuna_study.best_trial.params["knob.top_k"]
    )
    compiled = score.save(optuna_study.best_trial, folder / "best")
    assert load(folder / "best").state == compiled.state
    assert compiled.provenance["dev"]["winner"]["em"]["mean"] == 1
    assert str(folder) not in (folder / "best" / "provenance.json").read_text("utf-8")
    seen = len(target.requests)
    again = study(score.task.recipe)
    assert len(again.trials) == 8
    again.optimize(objective(folder, target), n_trials=1, n_jobs=1)
    assert len(target.requests) <= seen + 20


def test_the_baseline_keeps_defaults_that_lie_outside_the_searched_ranges(home: Path, folder: Path) -> None:
    score = objective(folder, ScriptedTarget(three_suffice), "search.ranges.top_k=[7, 9]")
    optuna_study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    score.enqueue_baseline(optuna_study)
    optuna_study.optimize(score, n_trials=2)
    tried = [score.candidate(trial).knobs["top_k"] for trial in optuna_study.trials]
    assert tried[0] == score.task.baseline_knobs["top_k"] == 3
    assert tried[1] in range(7, 10)


def test_any_pruner_and_sampler_may_be_used(home: Path, folder: Path) -> None:
    score = objective(folder, ScriptedTarget(three_suffice))
    optuna_study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=1),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=0),
    )
    optuna_study.enqueue_trial({"knob.top_k": 4})
    optuna_study.optimize(score, n_trials=4, n_jobs=2)
    assert optuna_study.best_params["knob.top_k"] >= 3
    assert {t.state.name for t in optuna_study.trials} <= {"COMPLETE", "PRUNED"}


class Slow(ScriptedTarget):
    """Takes a moment to open, as real ones do."""

    async def open(self, progress: Watch | None = None) -> None:
        await asyncio.sleep(0.05)


def test_threads_that_begin_together_wait_for_a_target_that_opens(home: Path, folder: Path) -> None:
    optuna_study = optuna.create_study(direction="maximize")
    optuna_study.optimize(objective(folder, Slow(three_suffice)), n_trials=4, n_jobs=4)
    assert [t.state.name for t in optuna_study.trials] == ["COMPLETE"] * 4


def test_several_objectives_are_told_signed(home: Path, folder: Path) -> None:
    score = objective(folder, ScriptedTarget(three_suffice), 'search.objectives=["em", "-tokens"]')
    optuna_study = study(score.task.recipe)
    optuna_study.optimize(score, n_trials=4)
    assert all(trial.values[1] < 0 for trial in optuna_study.trials)
    assert len(optuna_study.best_trials) >= 1


def test_a_spent_budget_stops_the_study(home: Path, folder: Path) -> None:
    target = ScriptedTarget(three_suffice)
    score = objective(folder, target, "budget.lm_calls=30", "search.ranges.top_k=[1, 9]")
    optuna_study = study(score.task.recipe)
    optuna_study.optimize(score, n_trials=50)
    assert len(target.requests) <= 30
    assert optuna_study.trials[-1].state is optuna.trial.TrialState.PRUNED
    assert len(optuna_study.trials) < 50


def test_a_foreign_trial_is_refused(home: Path, folder: Path) -> None:
    score = objective(folder, ScriptedTarget([]))
    optuna_study = optuna.create_study()
    with pytest.raises(UsageError, match="not run by this objective"):
        score.save(optuna_study.ask(), folder / "out")


@pytest.mark.parametrize("objectives", ['["em"]', '["em", "-tokens"]'])
def test_failures_are_told_and_what_answered_nothing_is_pruned(
    objectives: str, home: Path, folder: Path
) -> None:
    def reply(request: ChatRequest) -> Any:
        text = request.messages[-1].content
        if "[3]" not in text:
            return "%%%"
        return "%%%" if "number20?" in text else three_suffice(request)

    score = objective(folder, ScriptedTarget(reply), f"search.objectives={objectives}")
    optuna_study = study(score.task.recipe)
    optuna_study.enqueue_trial({"knob.top_k": 1})
    optuna_study.enqueue_trial({"knob.top_k": 4})
    optuna_study.optimize(score, n_trials=3)
    nothing = optuna_study.trials[1]
    assert nothing.params["knob.top_k"] == 1
    assert nothing.state == optuna.trial.TrialState.PRUNED
    failures = nothing.user_attrs["ragc:failures"]
    assert (failures["n"], failures["of"]) == (20, 20)
    assert failures["reasons"][0]["reason"].startswith("A reply is no JSON")
    assert optuna_study.trials[2].user_attrs["ragc:failures"]["n"] == 1
    assert nothing not in optuna_study.best_trials


@pytest.mark.parametrize("objectives", ['["-tokens"]', '["em", "-tokens"]'])
def test_what_fails_in_nearly_all_questions_is_not_the_cheapest(
    objectives: str, home: Path, folder: Path
) -> None:
    """One question is answered even with one passage, so the trial is not one that answered nothing."""

    def reply(request: ChatRequest) -> Any:
        text = request.messages[-1].content
        return three_suffice(request) if "[3]" in text or "number20?" in text else "%%%"

    score = objective(folder, ScriptedTarget(reply), f"search.objectives={objectives}")
    optuna_study = study(score.task.recipe)
    optuna_study.enqueue_trial({"knob.top_k": 1})
    optuna_study.optimize(score, n_trials=3)
    hardly = optuna_study.trials[1]
    assert hardly.params["knob.top_k"] == 1
    assert hardly.state == optuna.trial.TrialState.PRUNED
    assert hardly not in optuna_study.best_trials
    report = status(optuna_study.user_attrs["ragc:path"])
    assert report.failing[0]["trial"] == 1
    assert any("19 of 20 questions failed" in line for line in report.lines())
    assert report.best is not None
    assert report.best["failures"]["n"] == 0
