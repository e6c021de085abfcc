"""Reads a study, finished or not, for a report: its trials and their dimensions, questions, budget and log.

Importances are those of PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255) in Optuna's implementation: how
far the choices of the best trials differ from those of all. They describe the trials of one study, which the
sampler chose; they are no effects, and with few trials they are noise.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from ragc.compiled.study_rows import DEV, PROVENANCE, answers_file
from ragc.core.files import read_bytes
from ragc.core.redact import redact
from ragc.errors import ArtefactError, RagcError
from ragc.metrics.base import UNMEASURED, Objective
from ragc.metrics.stats.resample import mean_ci
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.integrations import optuna_folder, optuna_status
from ragc.optimizers.integrations.optuna_objective import CANDIDATE
from ragc.optimizers.search.selection import expected_of_choice, expected_scores
from ragc.optimizers.search.storage import find
from ragc.optimizers.search.tell import failures_in
from ragc.optimizers.status import StudyStatus, status, study_trials
from ragc.optimizers.status.record import count_words
from ragc.recipe import Recipe
from ragc.recipe.models import SelectionRule
from ragc.reports.compiled import RUNS, Measured, RunFacts
from ragc.reports.questions import SEED, Run, metric_of
from ragc.reports.report import Trial, is_number, varied
from ragc.task.base import objective_of
from ragc.task.study_address import recipe_in

MIN_TRIALS = 8
"""Complete trials below which no importances are given."""

MIN_TRIALS_OF_VALUE = 3
"""Complete trials with a value below which the value is not compared with others."""

MIN_FOR_INTERVAL = 5
"""Questions below which the mean of a trial has no interval."""

MAX_INTERVALS = 1_000
"""Trials beyond which none of them has an interval: each takes hundredths of a second."""

_BUDGET = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "US dollars", "minutes": "minutes"}


@dataclass(frozen=True, slots=True)
class StudyFiles:
    """A study as read from its directory.

    `results` are the finished trials, the baseline first; `measured` is the provenance of the compiled
    program, None before the end. `rule` chose among the trials. `is_script` marks the study of a user's own
    Optuna script.
    """

    directory: Path
    status: StudyStatus
    recipe: Recipe
    rule: SelectionRule
    results: tuple[TrialResult, ...]
    measured: Measured | None
    is_script: bool

    @property
    def chosen(self) -> int | None:
        """The number of the best trial so far."""
        return (self.status.best or {}).get("trial")


def read_study(path: Path, *, trust_targets: bool = False) -> StudyFiles:
    """Reads the study at `path`: its own directory, or the --out of its compile. Changes nothing.

    Raises ArtefactError if there is none or it is damaged, Untrusted, StoreError.
    """
    state = status(path, trust_targets=trust_targets)
    directory = Path(state.study)
    recipe, is_script = recipe_in(directory), optuna_folder.is_own(directory)
    rule = SelectionRule.of(recipe.search, [objective_of(name) for name in recipe.search.objectives])
    results = _script_results(directory, len(rule.objectives)) if is_script else study_trials(directory)
    measured = None
    if state.state == "finished" and (provenance := _json(directory, PROVENANCE)):
        measured = Measured.of(provenance[0], {}, directory)
    return StudyFiles(directory, state, recipe, rule, tuple(results), measured, is_script)


def study_of(compiled: Path, measured: Measured) -> StudyFiles | None:
    """Returns the study that wrote the compiled directory; None if it is missing here, or replaced."""
    try:
        files = read_study(find(compiled))
    except RagcError:
        return None
    provenance = measured.model_copy(update={"run": RunFacts()})
    return files if files.measured == provenance else None


def _json(directory: Path, name: str) -> list[dict[str, Any]]:
    """Returns the JSON objects in a file of a study, one, or one a line; [] without the file."""
    path = directory / name
    if not path.exists():
        return []
    try:
        text = read_bytes(path, within=directory).decode("utf-8")
        lines = text.split("\n") if path.suffix == ".jsonl" else [text]
        return [dict(json.loads(line)) for line in lines if line.strip()]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ArtefactError(
            f"{path} cannot be read ({type(error).__name__}); compile again, which sends no answered request "
            "again."
        ) from None


def trials_of(files: StudyFiles) -> Iterator[Trial]:
    """Yields the trials of the study, in order, with the best value so far and the expected score of each.

    That of the chosen trial is reduced by the bias of choosing, as in `search.expected` of the provenance.
    Trials of a script have no scores by question, so nothing is expected of them.
    """
    results, objectives, pick = files.results, files.rule.objectives, files.rule.pick
    expected: dict[int, float] = {}
    if results and not files.is_script:
        expected = {number: score.value for number, score in expected_scores(results, pick).items()}
    if winner := next((trial for trial in results if trial.number == files.chosen and expected), None):
        expected[winner.number] = expected_of_choice(results, files.rule, winner).value
    front = {trial["trial"] for trial in files.status.front}
    questions = max((len(trial.scores) for trial in results if trial.complete), default=0)
    best: float | None = None
    for trial in results:
        value = trial.values[objectives.index(pick)]
        if trial.complete and not trial.failures.all and (best is None or value > best):
            best = value
        seen = len(trial.scores) or trial.failures.of
        low, high = _interval(trial, pick) if len(results) <= MAX_INTERVALS else (None, None)
        yield Trial(
            number=trial.number,
            choices=_choices(files, trial),
            values={o.metric.id: o.to_metric(v) for o, v in zip(objectives, trial.values, strict=True)},
            seen=seen,
            of=max(questions, seen),
            complete=trial.complete,
            best=None if best is None else pick.to_metric(best),
            low=low,
            high=high,
            expected=pick.sign * expected[trial.number] if expected else None,
            front=trial.number in front,
            chosen=trial.number == files.chosen,
            failed=trial.failures.n,
            failures=trial.failures.text,
            params=params_of(trial.candidate),
            counters=dict(trial.counters),
        )


def _interval(trial: TrialResult, pick: Objective) -> tuple[float | None, float | None]:
    """Returns the 95% interval of the mean of `pick` over the questions of `trial`; None for too few."""
    values = [pick.to_metric(value) for value in trial.series(pick)]
    if len(values) < MIN_FOR_INTERVAL or max(values) >= UNMEASURED:
        return None, None
    interval = mean_ci(values, seed=SEED, bounds=metric_of(pick.metric.id, values)[1])
    return interval.low, interval.high


def _choices(files: StudyFiles, trial: TrialResult) -> str:
    """Returns in words what the trial chose differently from the baseline; of a script all that it chose."""
    base, candidate = files.results[0], trial.candidate
    if trial is base and not files.is_script:
        return "baseline"
    before = {} if files.is_script else base.candidate.knobs
    changed = {name: value for name, value in candidate.knobs.items() if before.get(name) != value}
    return describe_candidate(candidate, changed, program=candidate.program) or "as the baseline"


def _script_results(directory: Path, objectives: int) -> Iterator[TrialResult]:
    """Yields the complete and pruned trials of a user's own Optuna script, without scores by question."""
    for trial in optuna_status.trials_of(directory):
        candidate, values = trial.user_attrs.get(CANDIDATE), trial.values or ()
        if candidate and len(values) == objectives:
            complete, failures = trial.state is optuna.trial.TrialState.COMPLETE, failures_in(trial)
            yield TrialResult(
                trial.number, Candidate.of(candidate), (), tuple(values), complete, {}, failures
            )


def params_of(candidate: Candidate) -> dict[str, Any]:
    """Returns the choices of `candidate` by dimension, without defaults."""
    shown: dict[str, Any] = {**candidate.knobs, "demos": candidate.demos}
    if candidate.demos:
        shown["demo_set"] = f"{candidate.demo_kind} {candidate.demo_set}"
    if candidate.program:
        shown["program"] = candidate.program
    shown |= {f"{name}: demos": f"{n} of set {number}" for name, (n, number) in candidate.own_demos.items()}
    shown |= {f"{name}: instructions": f"text {number}" for name, number in candidate.instructions.items()}
    return shown | {f"target {role}": name for role, name in candidate.targets.items()}


def budget_of(files: StudyFiles) -> list[dict[str, Any]]:
    """Returns what was spent, and the limits; None for no limit."""
    return [
        {"kind": _BUDGET[kind], "spent": amounts["spent"] or 0.0, "limit": amounts["limit"]}
        for kind, amounts in files.status.budget.items()
        if amounts["spent"] or amounts["limit"] is not None
    ]


def facts_of(files: StudyFiles) -> dict[str, str]:
    """Returns the state of the study, and the end of its log."""
    done, state = files.status.trials, files.status
    return {
        "state": state.state,
        "trials": f"{done['done']} of {done['wanted']}",
        **{f"trials {word}": str(count) for word, count in count_words(done, state.recipe["optimizer"])},
        "optimizer": state.recipe["optimizer"],
        "searched": ", ".join(state.recipe["searched"]) or "nothing",
        "log": redact("\n".join(state.log)),
    }


def runs_of(files: StudyFiles) -> tuple[str, list[Run]]:
    """Returns the split of the questions that are shown, and the runs on it; "" and [] before any.

    After the end those are baseline and compiled program on test. Before, and without test answers, baseline
    and best trial on the dev questions that they answered: scores without answers.

    Raises DataError if a file is damaged.
    """
    paths = {run: files.directory / answers_file(key) for key, run in RUNS.items()}
    if files.status.state == "finished" and any(path.exists() for path in paths.values()):
        return "test", [Run.read(path, run) for run, path in paths.items() if path.exists()]
    questions = _json(files.directory, DEV)
    last = RUNS["winner"] if files.status.state == "finished" else "best trial"
    runs = [
        Run.of_rows(
            [{**row, "scores": dict(scores)} for row, scores in zip(questions, trial.scores, strict=False)],
            RUNS["baseline"] if trial is files.results[0] else last,
            str(files.directory / DEV),
        )
        for trial in files.results
        if trial is files.results[0] or trial.number == files.chosen
        if trial.scores and questions
    ]
    return ("dev", runs) if runs else ("", [])


def importances(trials: Sequence[Trial], metric: str, *, more_is_better: bool) -> list[dict[str, Any]]:
    """Returns the importances for `metric` among the complete `trials`, greatest first; none below
    `MIN_TRIALS` of them.
    """
    scored = [trial for trial in trials if trial.complete and metric in trial.values]
    columns = varied([trial.params for trial in scored])
    if len(scored) < MIN_TRIALS or len({trial.values[metric] for trial in scored}) == 1 or not columns:
        return []
    shown: dict[str, list[Any]] = {
        name: values if all(map(is_number, values)) else list(map(str, values))
        for name, values in columns.items()
    }
    spaces: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.FloatDistribution(min(values), max(values))
        if is_number(values[0])
        else optuna.distributions.CategoricalDistribution(sorted(set(values)))
        for name, values in shown.items()
    }
    study = optuna.create_study(direction="maximize" if more_is_better else "minimize")
    for trial, *chosen in zip(scored, *shown.values(), strict=True):
        params, value = dict(zip(shown, chosen, strict=True)), trial.values[metric]
        study.add_trial(optuna.trial.create_trial(value=value, params=params, distributions=spaces))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a choice was tried once only; the page says it of all
        shares = optuna.importance.get_param_importances(study)
    return [
        {"dimension": name, "metric": metric, "share": float(share), "trials": len(scored)}
        for name, share in shares.items()
    ]


def slices(trials: Sequence[Trial], metric: str, *, more_is_better: bool) -> Iterator[dict[str, Any]]:
    """Yields the complete trials by each value of each dimension that varies, in order of appearance.

    A dimension is left out unless two of its values have `MIN_TRIALS_OF_VALUE` trials each.
    """
    scored = [trial for trial in trials if trial.complete and metric in trial.values]
    for name, values in varied([trial.params for trial in scored]).items():
        scores: dict[str, list[float]] = {}
        for value, trial in zip(values, scored, strict=True):
            scores.setdefault("none" if value is None else str(value), []).append(trial.values[metric])
        if sum(len(of_value) >= MIN_TRIALS_OF_VALUE for of_value in scores.values()) >= 2:
            for value, of_value in scores.items():
                best = max(of_value) if more_is_better else min(of_value)
                figures = {"trials": len(of_value), "mean": sum(of_value) / len(of_value), "best": best}
                yield {"dimension": name, "value": value, "metric": metric, **figures}
