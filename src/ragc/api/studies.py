"""The search for the best program of a recipe: what it can show, its run, its state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ragc.compiled.access import Access
from ragc.core.progress import SILENT

if TYPE_CHECKING:
    import optuna

    from ragc.core.progress import Display, Progress
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.integrations.optuna_objective import Objective
    from ragc.optimizers.plan.headroom.result import Headroom
    from ragc.optimizers.status import StudyStatus


@overload
def compile(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    resume: bool = ...,
    again: bool = ...,
    include_seen: bool = ...,
    dry_run: Literal[True],
    progress: Display = ...,
) -> dict[str, Any]: ...
@overload
def compile(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    resume: bool = ...,
    again: bool = ...,
    include_seen: bool = ...,
    dry_run: Literal[False] = ...,
    progress: Display = ...,
) -> Compiled: ...
def compile(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    again: bool = False,
    include_seen: bool = False,
    dry_run: bool = False,
    progress: Display = None,
) -> Compiled | dict[str, Any]:
    """Searches for the best program, tests it against the baseline, and writes it.

    It is written to the directory `out`, by default `compiled/` and the name of the recipe file. `sets` are
    overrides such as `"search.trials=5"`. `resume` continues an interrupted study, or starts one. `again`
    asks the models again; stored replies are not used. Test questions that an earlier search on this machine
    used as train or dev are left out; with `include_seen` they are scored, and the verdict says so.
    `progress` is True for the bars of the command line, False for none, None for bars on a terminal or in a
    notebook, a function that takes a line of text, or a Progress. Returns a Compiled with `verdict` (str),
    `baseline` and `test` (an Interval per metric, on the test split), `differences`, `counters` (requests,
    tokens, US dollars, seconds) and the `program`.

    With `dry_run` everything that the recipe needs is checked, `out` included, nothing is sent or written,
    and a JSON object is returned: estimates `lm_calls_about`, `tokens_about` and `usd_about` (each None where
    unknown), and the calls by phase. The budget is the bound.

        print(ragc.compile("recipe.toml", dry_run=True)["lm_calls_about"])
        compiled = ragc.compile("recipe.toml", out="compiled/mine")
        print(compiled.verdict, compiled.test["f1"].mean)

    Raises RecipeError with all problems of the recipe, UsageError, DataError, TargetError, and
    NothingAnswered when no program answered any dev question.
    """
    from ragc import recipe as recipes
    from ragc.core.progress import showing

    resolved = recipes.load(recipe, sets)
    if dry_run:
        from ragc.optimizers.plan.estimate import estimate

        return estimate(resolved, out, include_seen=include_seen)
    from ragc.optimizers import compile as compiling
    from ragc.optimizers.search.storage import default_out

    target = Path(out) if out is not None else default_out(recipe)
    with showing(progress) as shown:
        return compiling.compile(
            resolved, target, resume=resume, again=again, progress=shown, include_seen=include_seen
        )


@overload
def headroom(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    calls: int = ...,
    gain: float = ...,
    dry_run: Literal[True],
    progress: Progress | None = ...,
) -> dict[str, Any]: ...
@overload
def headroom(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    calls: int = ...,
    gain: float = ...,
    dry_run: Literal[False] = ...,
    progress: Progress | None = ...,
) -> Headroom: ...
def headroom(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    calls: int = 300,
    gain: float = 0.05,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Headroom | dict[str, Any]:
    """Measures what a study of `recipe` can show, with at most `calls` LM calls on dev questions.

    A few settings that differ much answer the same dev questions, and the baseline answers them twice. A
    later compile replays what was answered. Returns a Headroom with `verdict` ("worth it", "not worth it",
    "change it first" or "not known"), `why`, `gain` (the gain to expect, with its interval), `shows` (the
    smallest gain that the dev and test questions show), `needed` (the questions that the gain `gain` needs)
    and `noise`. No test question is used. With `dry_run` nothing is sent, and what would be asked is returned
    as a JSON object.

        ragc.headroom("recipe.toml").why

    Raises what `compile` raises before its first request, UsageError where the recipe searches nothing or
    `calls` are too few, and NothingAnswered when no question was answered.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.plan.headroom import probe

    resolved = recipes.load(recipe, sets)
    if dry_run:
        return probe.plan(resolved, calls=calls, gain=gain)
    return probe.headroom(resolved, calls=calls, gain=gain, progress=progress or SILENT)


def study_status(path: str | Path, *, access: Access = Access()) -> StudyStatus:
    """Reads the state of the study of the compiled program at `path`, finished or not.

    Returns a StudyStatus: trials, best values, budget, log. A study outside this machine's cache is
    untrusted; `access` with `targets` allows its addresses. Raises ArtefactError where there is no study.
    """
    from ragc.optimizers.status import status

    return status(path, trust_targets=access.targets)


def study(recipe: str | Path, *, sets: Sequence[str] = (), name: str = "") -> optuna.Study:
    """Returns an Optuna study for a recipe file, to be optimized with `objective` of the same `name`.

    It is stored under `name`, by default the recipe's name, in a folder whose path is printed.

        study, objective = ragc.study("recipe.toml"), ragc.objective("recipe.toml")
        study.optimize(objective, n_trials=20)

    Raises RecipeError, and UsageError for a recipe that changed under the same name.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    return optuna_objective.study(recipes.load(recipe, sets), name=name, file=recipe)


def objective(recipe: str | Path, *, sets: Sequence[str] = (), name: str = "") -> Objective:
    """Returns a recipe file as an objective for `study.optimize`; nothing is sent until it is called.

    A call returns the mean of the objective over the dev questions, or a tuple of means for several
    objectives. Larger is better. Raises RecipeError and DataError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    resolved = recipes.load(recipe, sets)
    return optuna_objective.Objective(resolved, name=name, file=recipe)
