"""Reads a study, finished or not, for a report: its trials, its questions, its budget and its log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

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
from ragc.optimizers.status import StudyStatus, open_study, status, study_trials
from ragc.optimizers.status.record import count_words
from ragc.recipe.models import SelectionRule
from ragc.reports.compiled import RUNS
from ragc.reports.questions import SEED, metric_of
from ragc.reports.report import BudgetLine, ReportFact, Trial
from ragc.reports.row_files import RunRows, read_rows, rows_of
from ragc.reports.values import mapping, text
from ragc.task.base import objective_of
from ragc.task.study_address import recipe_in

MIN_FOR_INTERVAL = 5
"""Questions below which the mean of a trial has no interval."""

MAX_INTERVALS = 1_000
"""Trials beyond which none of them has an interval: each takes hundredths of a second."""

_BUDGET = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "US dollars", "minutes": "minutes"}


@dataclass(frozen=True, slots=True)
class StudyFiles:
    """A study as read from its directory.

    `results` are the finished trials, the baseline first; `provenance` that of the compiled program, empty
    before the end. `rule` chose among them.
    """

    directory: Path
    status: StudyStatus
    recipe: str
    rule: SelectionRule
    results: tuple[TrialResult, ...]
    provenance: Mapping[str, Any]

    @property
    def is_script(self) -> bool:
        """Whether it is the study of a user's own Optuna script."""
        return optuna_folder.is_own(self.directory)

    @property
    def finished(self) -> bool:
        """Whether the study ended with a compiled program."""
        return self.status.state == "finished"


def read_study(path: Path, *, trust_targets: bool = False) -> StudyFiles:
    """Reads the study at `path`: its own directory, or the --out of its compile. Changes nothing.

    Raises ArtefactError if there is none or it is damaged, Untrusted, StoreError.
    """
    state = status(path, trust_targets=trust_targets)
    directory = Path(state.study)
    recipe = recipe_in(directory)
    results = () if optuna_folder.is_own(directory) else tuple(study_trials(directory))
    return StudyFiles(
        directory,
        state,
        recipe.to_toml(),
        SelectionRule.of(recipe.search, [objective_of(name) for name in recipe.search.objectives]),
        results,
        _json_object(directory / PROVENANCE, directory),
    )


def optuna_study_of(files: StudyFiles) -> optuna.Study | None:
    """Returns the Optuna study behind `files`; None if there is none, or its storage is unreadable."""
    try:
        if files.is_script:
            return optuna_status.study_of(files.directory)
        return open_study(files.directory)
    except RagcError:
        return None


def study_of(compiled: Path, provenance: Mapping[str, Any]) -> StudyFiles | None:
    """Returns the study that wrote the compiled directory; None if it is missing here, or replaced."""
    try:
        directory = find(compiled)
        if _json_object(directory / PROVENANCE, directory) != provenance:
            return None
        return read_study(directory)
    except RagcError:
        return None


def _json_object(path: Path, home: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    with _reading(path):
        return mapping(json.loads(read_bytes(path, within=home)))


def _json_lines(path: Path, home: Path) -> list[Any]:
    with _reading(path):
        content = read_bytes(path, within=home).decode("utf-8")
        return [json.loads(line) for line in content.split("\n") if line.strip()]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        raise ArtefactError(
            f"{path} cannot be read ({type(error).__name__}); compile again, which replays what was answered."
        ) from None


def trials_of(files: StudyFiles) -> Iterator[Trial]:
    """Yields the trials of the study, in order, with the best value so far and the expected score of each.

    That of the chosen trial is reduced by the bias of choosing, as in `search.expected` of the provenance.
    """
    if files.is_script:
        yield from _script_trials(files)
    results, objectives, pick = files.results, files.rule.objectives, files.rule.pick
    if not results:
        return
    index = objectives.index(pick)
    expected = expected_scores(results, pick)
    front = {trial["trial"] for trial in files.status.front}
    chosen = (files.status.best or {}).get("trial")
    if winner := next((trial for trial in results if trial.number == chosen), None):
        expected[winner.number] = expected_of_choice(results, files.rule, winner)
    whole = max((len(trial.scores) for trial in results if trial.complete), default=0)
    best: float | None = None
    for trial in results:
        value = trial.values[index]
        if trial.complete and not trial.failures.all and (best is None or value > best):
            best = value
        low, high = _interval(trial, pick) if len(results) <= MAX_INTERVALS else (None, None)
        yield Trial(
            number=trial.number,
            choices=_choices(files, trial),
            values={one.metric.id: one.to_metric(v) for one, v in zip(objectives, trial.values, strict=True)},
            seen=len(trial.scores),
            of=max(whole, len(trial.scores)),
            complete=trial.complete,
            best=None if best is None else pick.to_metric(best),
            low=low,
            high=high,
            expected=pick.sign * expected[trial.number].value,
            front=trial.number in front,
            chosen=trial.number == chosen,
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


def _script_trials(files: StudyFiles) -> Iterator[Trial]:
    """Yields the complete and pruned trials of a user's own Optuna script."""
    objectives, best = files.rule.objectives, None
    front = {trial["trial"] for trial in files.status.front}
    index = objectives.index(files.rule.pick)
    for trial in optuna_status.trials_of(files.directory):
        candidate, values = trial.user_attrs.get(CANDIDATE), trial.values
        if not isinstance(candidate, Mapping) or not values or len(values) != len(objectives):
            continue
        complete = trial.state is TrialState.COMPLETE
        if complete and (best is None or values[index] > best):
            best = values[index]
        held, failures = Candidate.of(candidate), failures_in(trial)
        yield Trial(
            number=trial.number,
            choices=describe_candidate(held, held.knobs, program=held.program),
            values={one.metric.id: one.to_metric(v) for one, v in zip(objectives, values, strict=True)},
            seen=failures.of,
            of=failures.of,
            complete=complete,
            best=None if best is None else objectives[index].to_metric(best),
            front=trial.number in front,
            chosen=trial.number == (files.status.best or {}).get("trial"),
            failed=failures.n,
            failures=failures.text,
            params=params_of(held),
        )


def params_of(candidate: Candidate) -> dict[str, Any]:
    """Returns the choices of `candidate` by dimension, without defaults."""
    shown: dict[str, Any] = dict(candidate.knobs)
    shown["demos"] = candidate.demos
    if candidate.demos:
        shown["demo_set"] = f"{candidate.demo_kind} {candidate.demo_set}"
    if candidate.program:
        shown["program"] = candidate.program
    shown |= {f"{name}: demos": f"{n} of set {at}" for name, (n, at) in candidate.own_demos.items()}
    shown |= {f"{name}: instructions": f"text {at}" for name, at in candidate.instructions.items()}
    return shown | {f"target {role}": name for role, name in candidate.targets.items()}


def _choices(files: StudyFiles, trial: TrialResult) -> str:
    """Returns in words what the trial chose differently from the baseline."""
    base, candidate = files.results[0].candidate, trial.candidate
    if trial.number == files.results[0].number:
        return "baseline"
    changed = {name: value for name, value in candidate.knobs.items() if base.knobs.get(name) != value}
    return describe_candidate(candidate, changed, program=candidate.program) or "as the baseline"


def budget_of(files: StudyFiles) -> Iterator[BudgetLine]:
    """Yields what was spent, and the limits."""
    for kind, amounts in files.status.budget.items():
        spent, limit = amounts.get("spent"), amounts.get("limit")
        if spent or limit is not None:
            yield BudgetLine(_BUDGET.get(kind, kind), spent or 0.0, limit)


def facts_of(files: StudyFiles) -> Iterator[ReportFact]:
    """Yields the state of the study, and the end of its log."""
    done, held = files.status.trials, files.status
    yield ReportFact("study", "state", held.state)
    yield ReportFact("study", "trials", f"{done['done']} of {done['wanted']}")
    for word, count in count_words(done, held.recipe.get("optimizer")):
        yield ReportFact("study", f"trials {word}", str(count))
    yield ReportFact("study", "optimizer", text(held.recipe.get("optimizer")))
    yield ReportFact("study", "searched", ", ".join(_names(held.recipe.get("searched"))) or "nothing")
    if held.log:
        yield ReportFact("study", "log", redact("\n".join(held.log)))


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(one) for one in value or ()]


def runs_on_test(files: StudyFiles) -> list[RunRows]:
    """Returns baseline and compiled program on test; none before the end. Raises DataError if damaged."""
    if not files.finished:
        return []
    paths = {run: files.directory / answers_file(key) for key, run in RUNS.items()}
    return [read_rows(path, run) for run, path in paths.items() if path.exists()]


def runs_on_dev(files: StudyFiles) -> list[RunRows]:
    """Returns baseline and best trial on the dev questions that both answered: scores without answers."""
    path, best = files.directory / DEV, (files.status.best or {}).get("trial")
    results = {trial.number: trial for trial in files.results}
    if not path.exists() or best not in results:
        return []
    questions = _json_lines(path, files.directory)
    first = files.results[0]
    chosen = [(RUNS["baseline"], first)]
    if best != first.number:
        chosen.append((RUNS["winner"] if files.finished else "best trial", results[best]))
    return [
        rows_of(name, _scored(questions, trial), str(path))
        for name, trial in chosen
        if trial.scores and len(trial.scores) <= len(questions)
    ]


def _scored(questions: Sequence[Any], trial: TrialResult) -> Iterator[dict[str, Any]]:
    for question, scores in zip(questions, trial.scores, strict=False):
        yield {**mapping(question), "scores": dict(scores)}
