"""Reads the status of a study from its stored state, while it runs or after it ended. Nothing is changed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout

from ragc.compiled.study_rows import TRIALS
from ragc.core.files import read_bytes
from ragc.core.redact import shorten
from ragc.core.text import visible
from ragc.errors import ArtefactError, Untrusted
from ragc.metrics.base import Objective
from ragc.optimizers.candidates.instructions.base import Round, round_name
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.integrations import optuna_folder
from ragc.optimizers.search.log import LOG
from ragc.optimizers.search.selection import best as highest_mean
from ragc.optimizers.search.selection import pareto_front, select
from ragc.optimizers.search.storage import find, is_outside, open_server_study, read_study
from ragc.optimizers.status.counts import count_trials, fold_counts, read_trials
from ragc.optimizers.status.record import CUT, FINISHED, LINES, OWN, RUNNING, StudyStatus
from ragc.recipe import Recipe
from ragc.recipe.models import SelectionRule
from ragc.task.base import objective_of
from ragc.task.budget import BudgetFile
from ragc.task.study_address import read_address, recipe_in, storage_address

_NEXT = {
    RUNNING: "A process is at work on it; ask again, or read its log.",
    CUT: "Run the same `ragc compile` command with --resume to go on.",
    FINISHED: "It is finished; the compiled program is where --out of `ragc compile` said.",
}
_NEXT_IN_PYTHON = {
    CUT: "Run the script that compiles it again; what was answered is replayed.",
    FINISHED: "It is finished; the compiled program is where `out` of ragc.Compile said.",
}
"""For studies of ragc.Compile, which no command goes on with."""

_NOTHING = (
    "No trial so far answered any question, so there is nothing to compile; mend what the reason names, then "
    "compile again without --resume."
)


def status(path: str | Path, *, trust_targets: bool = False) -> StudyStatus:
    """Returns the status of the study at `path`: the --out directory of a compile, the study's own directory,
    or the recipe of a compile without --out.

    A study of `ragc.study` is also found by its recipe file or its name. `trust_targets` allows the addresses
    in a directory from elsewhere. Raises ArtefactError when there is no study, Untrusted for an address that
    is not allowed, StoreError when the storage cannot be read.
    """
    if optuna_folder.is_own(Path(path)):
        _check_inside(Path(path))
        return _script_status(Path(path))
    try:
        directory = find(path)
    except ArtefactError:
        if own := optuna_folder.find(path):
            return _script_status(own)
        raise
    _check_inside(directory)
    recipe = recipe_in(directory)
    if is_outside(directory) and recipe.study.storage and not trust_targets:
        raise Untrusted(
            f"{directory} is no study of this machine's, and its recipe speaks to "
            f"{shorten(recipe.study.storage)}; allow its addresses with --trust-targets."
        )
    study = _study(directory, recipe)
    trials = read_trials(study)
    objectives = [objective_of(name) for name in recipe.search.objectives]
    rule = SelectionRule.of(recipe.search, objectives)
    state = _state(directory)
    best = select(trials, rule) if trials and trials[0].complete else None
    highest = highest_mean(trials, objectives) if best and len(objectives) == 1 else None
    beside = pareto_front(trials, rule) if len(objectives) > 1 else []
    budget, stored = _budget(directory, recipe)
    return StudyStatus(
        str(directory),
        state,
        _about(recipe),
        count_trials(study, trials, _wanted_trials(recipe), running=state == RUNNING),
        _trial_json(best, objectives) if best else None,
        tuple(_trial_json(trial, objectives) for trial in beside),
        budget,
        _log(directory),
        _NOTHING if state == CUT and best and best.failures.all and len(trials) > 1 else _next(recipe, state),
        tuple(
            {"trial": trial.number, "failures": trial.failures.to_json()}
            for trial in sorted(trials, key=lambda trial: -trial.failures.share)
            if trial.failures.n
        ),
        _rounds(study, recipe),
        stored,
        fold_counts(directory, _wanted_trials(recipe), running=state == RUNNING),
        _trial_json(highest, objectives) if highest and best and highest.values > best.values else None,
    )


def _next(recipe: Recipe, state: str) -> str:
    """Returns what to do about a study; one of ragc.Compile has no targets, which are objects in Python."""
    return _NEXT[state] if recipe.targets else _NEXT_IN_PYTHON.get(state, _NEXT[state])


def study_trials(directory: Path) -> list[TrialResult]:
    """Returns the finished trials of the study in `directory`, the baseline first. `status` has checked it.

    Those of a finished study are read from `trials.json` where its storage has none: other optimizers have no
    storage. Raises StoreError, ArtefactError for a damaged file.
    """
    recipe = recipe_in(directory)
    if trials := read_trials(_study(directory, recipe)):
        return trials
    path = directory / TRIALS
    if not path.exists():
        return []
    try:
        trials = [TrialResult.of(value) for value in json.loads(read_bytes(path))]
        names = [name.removeprefix("-") for name in recipe.search.objectives]
        if not all(_is_whole(trial, names) for trial in trials):
            raise ValueError
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(
            f"{path} is damaged ({type(error).__name__}); compile again, which replays what was answered."
        ) from None
    return trials


def open_study(directory: Path) -> optuna.Study | None:
    """Returns the Optuna study of the compile in `directory`, as `study_trials`; None where it has none."""
    return _study(directory, recipe_in(directory))


def _is_whole(trial: TrialResult, objectives: Sequence[str]) -> bool:
    """Returns whether the scores and values of a trial that was read are numbers, with those of
    `objectives`.
    """
    every: list[Any] = [score for scores in trial.scores for score in scores.values() if score is not None]
    every += trial.values
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in every)
    named = all(name in scores for scores in trial.scores for name in objectives)
    return numbers and named and bool(trial.scores) and len(trial.values) == len(objectives)


def _rounds(study: optuna.Study | None, recipe: Recipe) -> dict[str, int] | None:
    """Returns the rounds of instructions that were held."""
    if not recipe.search.instruction_rounds:
        return None
    stored = study.user_attrs if study else {}
    held = [Round.of(value) for name, value in stored.items() if name.startswith(round_name(1)[:6])]
    texts = sum(
        len(new)
        for instruction_round in held
        for by_name in instruction_round.texts.values()
        for new in by_name.values()
    )
    return {"held": len(held), "of": recipe.search.instruction_rounds, "texts": texts}


def _about(recipe: Recipe) -> dict[str, Any]:
    return {
        "program": recipe.program,
        "optimizer": recipe.search.optimizer,
        "objectives": list(recipe.search.objectives),
        "seed": recipe.seed,
        "searched": list(recipe.search.knobs),
    }


def _wanted_trials(recipe: Recipe) -> int:
    """Returns the number of trials that `recipe` allows."""
    limit, trials = recipe.budget.trials, recipe.search.trials
    return trials if limit is None else min(trials, limit)


def _script_status(directory: Path) -> StudyStatus:
    """Returns the status of a user's own Optuna script."""
    from ragc.optimizers.integrations import optuna_status

    recipe = recipe_in(directory)
    trials = optuna_status.trials_of(directory)
    counts = optuna_status.counts(directory, trials, recipe)
    best, beside = optuna_status.best_and_front(trials, recipe)
    cut = counts["stale"] or (trials and not counts["done"])
    state = RUNNING if counts["running"] else CUT if cut else OWN
    after = _NEXT[RUNNING] if state == RUNNING else "Run the script that optimizes it to go on."
    if not trials:
        after = "No trial is kept here; one with a storage of its own keeps them there."
    budget, stored = _budget(directory, recipe)
    return StudyStatus(
        str(directory),
        state,
        _about(recipe) | {"optimizer": "optuna"},
        counts,
        best,
        tuple(beside),
        budget,
        _log(directory),
        after,
        optuna_status.failing(trials),
        stored=stored,
    )


def _check_inside(directory: Path) -> None:
    """Raises ArtefactError when a study from elsewhere holds a link to a path outside itself, or a pipe.

    Otherwise the link's target could be shown as the log, or files in it removed.
    """
    if not is_outside(directory):
        return
    home = directory.resolve()
    for folder in (directory, directory / "at-work"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            real = path.resolve()
            if not real.is_relative_to(home):
                raise ArtefactError(
                    f"{path} is a link that leads out of the study; copy it with what it links to."
                )
            if path.exists() and not (real.is_file() or real.is_dir()):
                raise ArtefactError(f"{path} is no regular file; copy the study again.")


def _state(directory: Path) -> str:
    lock = Path(f"{directory}.lock")
    if lock.exists():
        try:
            with FileLock(lock, timeout=0):
                pass
        except Timeout:
            return RUNNING
    return FINISHED if (directory / TRIALS).exists() else CUT


def _study(directory: Path, recipe: Recipe) -> optuna.Study | None:
    """Returns the Optuna study; None before its first trial and for an optimizer that has none."""
    if address := storage_address(recipe.study):
        name = read_address(directory).get("name")
        return open_server_study(address, name) if name else None
    return read_study(directory)


def _trial_json(trial: TrialResult, objectives: Sequence[Objective]) -> dict[str, Any]:
    pairs = zip(objectives, trial.values, strict=True)
    return {
        "trial": trial.number,
        "values": {objective.metric.id: objective.to_metric(value) for objective, value in pairs},
        "failures": trial.failures.to_json(),
        "candidate": trial.candidate.to_json(),
    }


def _budget(directory: Path, recipe: Recipe) -> tuple[dict[str, dict[str, float | None]], dict[str, float]]:
    """Returns what the study spent of each limit, and what of it is for stored replies."""
    path = directory / "charges.sqlite3"
    limits, charges = recipe.budget, BudgetFile(path if path.exists() else None, recipe.budget)
    total, stored = charges.spent, charges.cached.to_json()
    spent = {"lm_calls": total.calls, "tokens": total.tokens, "usd": total.usd, "minutes": charges.minutes}
    charges.close()
    budget = {
        name: {"spent": float(f"{amount:.9g}"), "limit": getattr(limits, name)}
        for name, amount in spent.items()
    }
    return budget, {name: float(f"{amount:.9g}") for name, amount in stored.items()}


def _log(directory: Path) -> tuple[str, ...]:
    path = directory / LOG
    try:
        lines = path.read_text("utf-8", "replace").splitlines()[-LINES:]
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"the log cannot be read: {error.strerror or error}",)
    return tuple(map(visible, lines))
