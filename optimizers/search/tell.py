"""Tells Optuna of finished trials, and derives the trials that its sampler learns from.

A trial that waits between two looks is RUNNING, with its mean after each look. A trial that was stopped early
is PRUNED, with its mean over the questions seen. That mean covers few and perhaps easy questions, so the
sampler learns from the trial's estimate instead, an attribute of the trial. Optuna cannot prune a trial with
several objectives: a stopped one is PRUNED without values and has attributes alone.

Other programs, such as optuna-dashboard, show what ragc itself does not read: the attributes `questions`,
`failed`, `total lm_calls`, `total tokens` and `mean METRIC` of every metric, and with one objective its mean
after each look and after 5, 10, 20, 40 ... questions as intermediate values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ragc.metrics.failures import Failures
from ragc.metrics.limits import CostLimit
from ragc.optimizers.candidates.trial import TrialResult
from ragc.task.base import objective_of

ESTIMATES, MEANS, QUESTIONS_SEEN, FAILURES = "ragc:estimates", "ragc:means", "ragc:seen", "ragc:failures"
"""Names of trial attributes.

For a stopped trial: its estimates and means (signed, one an objective) and the number of questions seen. For
a trial that failed in any question: `Failures.to_json`.
"""


_FIRST = 5
"""The number of questions of the first intermediate value."""


def report(study: optuna.Study, number: int, result: TrialResult) -> None:
    """Shows the mean of the running trial `number` of `study` so far. Idempotent."""
    if len(result.values) == 1:
        storage = study._storage
        trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
        storage.set_trial_intermediate_value(trial, len(result.scores), result.values[0])


def finish(study: optuna.Study, number: int, result: TrialResult, limits: Sequence[CostLimit] = ()) -> None:
    """Finishes the running trial `number` of `study` with the result `result`. Idempotent.

    How it stands to `limits` are constraints of the trial.
    """
    storage = study._storage
    trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    attributes: dict[str, Any] = dict(_shown(result))
    if result.failures.n:
        attributes[FAILURES] = result.failures.to_json()
    if not result.complete:
        attributes[ESTIMATES], attributes[MEANS] = list(result.estimates), list(result.values)
        attributes[QUESTIONS_SEEN] = len(result.scores)
    for name, value in attributes.items():
        storage.set_trial_user_attr(trial, name, value)
    known = storage.get_trial(trial).constraints if limits else {}
    for name, value in constraints_of(result, limits).items():
        if name not in known:
            optuna.Trial(study, trial).set_constraint(name, value)
    if len(result.values) == 1:
        for seen, mean in _curve(result, study.metric_names or ()):
            storage.set_trial_intermediate_value(trial, seen, mean)
    if result.complete:
        study.tell(number, list(result.values))
    else:
        study.tell(number, state=TrialState.PRUNED)


def _shown(result: TrialResult) -> Iterator[tuple[str, float]]:
    """Returns the attributes for other programs to show."""
    yield "questions", len(result.scores)
    yield "failed", result.failures.n
    for name in dict.fromkeys(name for scores in result.scores for name in scores):
        values = [value for scores in result.scores if (value := scores.get(name)) is not None]
        if values:
            yield f"mean {name}", sum(values) / len(values)
    yield "total lm_calls", result.counters.get("lm_calls", 0)
    yield "total tokens", result.tokens


def _curve(result: TrialResult, names: Sequence[str]) -> Iterator[tuple[int, float]]:
    """Returns the mean of the one objective, called `names[0]`, after 5, 10, 20 ... and after all questions
    seen.

    Only the last one in a study without names, and as that of a complete trial is its value, only for others.
    """
    if not names:
        if not result.complete:
            yield len(result.scores), result.values[0]
        return
    series, seen = result.series(objective_of(names[0])), _FIRST
    while seen < len(series):
        yield seen, sum(series[:seen]) / seen
        seen *= 2
    yield len(series), result.values[0]


def sampler_view(
    trials: Sequence[FrozenTrial],
    waiting: Mapping[int, TrialResult] | None = None,
    limits: Sequence[CostLimit] = (),
) -> list[FrozenTrial]:
    """Returns `trials` with the values that the sampler should learn from, in the same order.

    `waiting` are the results so far of running trials, by Optuna's number: they count with their estimates.
    A stopped trial is complete with its estimates. A trial that answered nothing is, in each objective, at
    most as good as the worst trial that answered: a failed question may be cheap.
    """
    so_far = [(waiting or {}).get(trial.number) for trial in trials]
    values = [_values(trial, result) for trial, result in zip(trials, so_far, strict=True)]
    failed = [_answered_nothing(trial, result) for trial, result in zip(trials, so_far, strict=True)]
    answering = [line for line, nothing in zip(values, failed, strict=True) if line and not nothing]
    if answering:
        floor = [min(column) for column in zip(*answering, strict=True)]
        values = [
            list(map(min, line, floor)) if line and nothing else line
            for line, nothing in zip(values, failed, strict=True)
        ]
    constraints = [
        trial.constraints if result is None or trial.state.is_finished() else constraints_of(result, limits)
        for trial, result in zip(trials, so_far, strict=True)
    ]
    return [_with(*of_trial) for of_trial in zip(trials, values, constraints, strict=True)]


def constraints_of(result: TrialResult, limits: Sequence[CostLimit]) -> dict[str, float]:
    """Returns Optuna's constraints: by what share `result` exceeds each of `limits`, at most 1e9."""
    return {limit.name: min(limit.excess(result.scores), 1e9) for limit in limits}


def _values(trial: FrozenTrial, so_far: TrialResult | None) -> list[float]:
    """Returns the values of `trial` for the sampler; empty for a trial without scores."""
    if so_far is not None and not trial.state.is_finished():
        return list(so_far.estimates)
    if trial.state == TrialState.COMPLETE:
        return list(trial.values)
    return [float(value) for value in trial.user_attrs.get(ESTIMATES, ())]


def failures_in(trial: FrozenTrial) -> Failures:
    """Returns the failures in the attributes of `trial`; no failures if the attribute is missing."""
    attribute = trial.user_attrs.get(FAILURES)
    return Failures() if attribute is None else Failures.from_json(attribute)


def _answered_nothing(trial: FrozenTrial, so_far: TrialResult | None) -> bool:
    return (so_far.failures if so_far else failures_in(trial)).all


class _Shared(dict[str, Any]):
    """A dictionary that is never changed, so that copies of a trial may share it.

    Optuna copies each trial that is added to a study, most of all its distributions.
    """

    def __deepcopy__(self, memo: object) -> _Shared:
        return self


def _with(trial: FrozenTrial, values: Sequence[float], constraints: Mapping[str, float]) -> FrozenTrial:
    """Returns `trial` for the sampler: its parameters, complete with `values`; without values as it is."""
    distributions = _Shared(trial.distributions)
    if values:
        return optuna.trial.create_trial(
            state=TrialState.COMPLETE,
            values=values,
            params=trial.params,
            distributions=distributions,
            constraints=dict(constraints) or None,
        )
    bare = copy.copy(trial)
    bare.distributions, bare.user_attrs = distributions, {}
    return bare
