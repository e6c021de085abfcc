"""The status of a study in a user's own Optuna script, as `ragc.optimizers.status` reports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ragc.optimizers.candidates.eligible import is_outdone
from ragc.optimizers.integrations.optuna_folder import Folder
from ragc.optimizers.integrations.optuna_objective import BASELINE, CANDIDATE, SPENT, WORKER
from ragc.optimizers.search.storage import NAME, read_study
from ragc.optimizers.search.tell import failures_in
from ragc.recipe import Recipe
from ragc.task.base import objective_of
from ragc.task.study_address import read_address


def trials_of(directory: Path) -> list[FrozenTrial]:
    """Returns the trials of the study in `directory`; none if they are in the script's own storage."""
    study = study_of(directory)
    return study.get_trials(deepcopy=False) if study else []


def study_of(directory: Path) -> optuna.Study | None:
    """Returns the study in `directory`; None if its trials are in the script's own storage."""
    return read_study(directory, read_address(directory).get("name", NAME))


def counts(directory: Path, trials: Sequence[FrozenTrial], recipe: Recipe) -> dict[str, int]:
    """Counts trials for `StudyStatus.trials`.

    The baseline is no trial, and a trial that was ended by a spent budget is not done.
    """
    states = Counter(trial.state for trial in trials)
    alive = Folder(directory, "").live_workers()
    running = [trial for trial in trials if trial.state is TrialState.RUNNING]
    at_work = sum(trial.user_attrs.get(WORKER) in alive for trial in running)
    ended = [t for t in trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    done = sum(not {BASELINE, SPENT} & trial.user_attrs.keys() for trial in ended)
    baselines = sum(BASELINE in trial.user_attrs and SPENT not in trial.user_attrs for trial in ended)
    return {
        "done": done,
        "baseline": min(1, baselines),
        "wanted": recipe.budget.trials or done,
        "stopped": states[TrialState.PRUNED],
        "running": at_work,
        "stale": len(running) - at_work,
        "failed": states[TrialState.FAIL],
    }


def best_and_front(
    trials: Sequence[FrozenTrial], recipe: Recipe
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Returns the best complete trial, the first of equals, and with several objectives the front.

    With several the best is one of the front.

    A trial that failed in many more questions than another without answering better is neither.
    """
    whole = [t for t in trials if t.state is TrialState.COMPLETE and CANDIDATE in t.user_attrs]
    if not whole:
        return None, []
    objectives = [objective_of(name) for name in recipe.search.objectives]
    pick_index = recipe.search.objectives.index(recipe.search.pick_name)

    def describe_trial(trial: FrozenTrial) -> dict[str, Any]:
        values: Mapping[str, float] = {
            objective.metric.id: objective.sign * value
            for objective, value in zip(objectives, trial.values, strict=True)
        }
        return {
            "trial": trial.number,
            "values": values,
            "failures": failures_in(trial).to_json(),
            "candidate": trial.user_attrs[CANDIDATE],
        }

    failed = [failures_in(trial) for trial in whole]
    whole = [
        trial
        for trial, own in zip(whole, failed, strict=True)
        if not any(
            is_outdone(own, trial.values, other, beside.values, objectives)
            for other, beside in zip(failed, whole, strict=True)
        )
    ]
    front: list[FrozenTrial] = []
    if len(objectives) > 1:
        study = optuna.create_study(directions=["maximize" for _ in objectives])
        study.add_trials(whole)
        numbers = {trial.number for trial in study.best_trials}
        front = [trial for at, trial in enumerate(whole) if at in numbers]
    best = max(front or whole, key=lambda trial: (trial.values[pick_index], -trial.number))
    return describe_trial(best), [describe_trial(trial) for trial in front]


def failing(trials: Sequence[FrozenTrial]) -> tuple[dict[str, Any], ...]:
    """Returns the trials with failed questions for `StudyStatus.failing`, the greatest share first."""
    by_trial = [(trial.number, failures_in(trial)) for trial in trials]
    return tuple(
        {"trial": number, "failures": failures.to_json()}
        for number, failures in sorted(by_trial, key=lambda pair: -pair[1].share)
        if failures.n
    )
