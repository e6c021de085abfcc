"""Counts the trials of a study, and those of the searches without each fold of a cross-validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna

from ragc.optimizers.candidates.trial import TrialResult, read_results
from ragc.optimizers.search.directory import fold_directory, fold_number
from ragc.optimizers.search.storage import read_study


def read_trials(study: optuna.Study | None) -> list[TrialResult]:
    """Returns the trials that `study` stored, the baseline first."""
    return [trial for _, trial in read_results(study.user_attrs if study else {})]


def count_trials(
    study: optuna.Study | None, results: Sequence[TrialResult], n_trials: int, *, running: bool
) -> dict[str, int]:
    """Returns the counts of `StudyStatus.trials`; `running` says whether a process holds the study."""
    trials = study.get_trials(deepcopy=False) if study else []
    states = Counter(trial.state for trial in trials)
    numbers = {number for number, _ in read_results(study.user_attrs if study else {})}
    flying = sum(t.state == optuna.trial.TrialState.RUNNING and t.number not in numbers for t in trials)
    return {
        "done": max(0, len(results) - 1),
        "baseline": min(1, len(results)),
        "wanted": n_trials,
        "stopped": sum(not result.complete for result in results),
        "running": flying if running else 0,
        "stale": 0 if running else flying,
        "failed": states[optuna.trial.TrialState.FAIL],
    }


def fold_counts(directory: Path, n_trials: int, *, running: bool) -> dict[str, Any] | None:
    """Returns how the folds of the study in `directory` stand; None without a cross-validation.

    `of` is their number, `fold` the last one whose search began, 0 before the first, and `trials` the counts
    of that search.
    """
    number = fold_number(directory)
    if not number:
        return None
    begun = [fold for fold in range(1, number + 1) if fold_directory(directory, fold).is_dir()]
    latest = max(begun, default=0)
    study = read_study(fold_directory(directory, latest)) if latest else None
    trials = count_trials(study, read_trials(study), n_trials, running=running) if latest else {}
    return {"of": number, "fold": latest, "trials": trials}
