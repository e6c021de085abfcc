"""Selects the trial to compile, with shrinkage against the winner's curse.

The greatest of many means is biased upwards: with more trials and fewer questions, more of its lead is luck.
Each trial's paired difference to the baseline, d with standard error s, is therefore shrunk towards the mean
of all trials (a random-effects model, DerSimonian and Laird 1986). With m the mean of the differences and t2
the variance between trials beyond what the questions explain, the expected difference is m + (d - m) t2 / (t2
+ s2). The baseline's own difference is 0 and exact. If trials differ much, they are hardly shrunk. If all
differences are noise, every trial is expected to score the same.

The winner is the trial with the greatest expected value. Ties go to the higher mean, then to fewer failed
questions, then to the baseline, then to fewer tokens a question, then to the earlier trial.

Only eligible trials can win, be a rival in a race or be on the front:

- The trial saw all dev questions.
- It answered at least one question, unless no trial did.
- Its share of failed questions may exceed that of the baseline, and that of the trial that failed least, by
  at most `FAILING`. Beyond that it must still have the higher mean in the first objective of which more is
  better, with each failed question at the metric's least score. Costs are ignored here, because a failed
  question may be cheap. In a study of costs alone such a trial, the baseline included, is not eligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragc.metrics.base import Objective
from ragc.metrics.failures import Failures
from ragc.optimizers.search.racing import dominated
from ragc.optimizers.search.trial import TrialResult

FAILING = 0.1
"""A trial whose share of failures exceeds another's by more than this must score better than the other."""


@dataclass(frozen=True, slots=True)
class ShrunkenMean:
    """The expected signed mean of a trial beyond this dev set, and the amount subtracted by shrinkage."""

    value: float
    shrunk: float

    def to_json(self) -> dict[str, float]:
        """JSON values only."""
        return {"value": round(self.value, 6), "shrunk": round(self.shrunk, 6)}


def shrunken_means(trials: Sequence[TrialResult], objective: Objective) -> dict[int, ShrunkenMean]:
    """The shrunken mean of every complete trial, by trial number. The first of `trials` is the baseline."""
    whole = [trial for trial in trials if trial.complete]
    base, *others = whole
    start = _mean(base.series(objective))
    expectations = {base.number: ShrunkenMean(start, 0.0)}
    if not others:
        return expectations
    lines = [_differences(trial, base, objective) for trial in others]
    means = [_mean(line) for line in lines]
    errors = _floor_errors([_squared_error(line) for line in lines])
    centre, between = _common(means, errors)
    for trial, mean, error in zip(others, means, errors, strict=True):
        weight = 1 / (1 + error / between) if between else 0.0
        value = centre + (mean - centre) * weight
        expectations[trial.number] = ShrunkenMean(start + value, mean - value)
    return expectations


def select(trials: Sequence[TrialResult], objectives: Sequence[Objective], pick: Objective) -> TrialResult:
    """The trial to compile: the best by `pick`, of the Pareto front if there are several objectives."""
    hopes = shrunken_means(trials, pick)
    pick_index = list(objectives).index(pick)

    def rank(trial: TrialResult) -> tuple[float, ...]:
        hope = round(hopes[trial.number].value, 9)
        return (-hope, -round(trial.values[pick_index], 12), *_among_equals(trial, trials[0]))

    return min(pareto_front(trials, objectives), key=rank)


def best(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> TrialResult:
    """The leader: the trial with the highest mean of the first objective. Ties are broken as in `select`."""
    return min(
        eligible_trials(trials, objectives),
        key=lambda t: (-round(t.values[0], 12), *_among_equals(t, trials[0])),
    )


def eligible_trials(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """The trials that may lead or win (see the module's docstring). The first of `trials` is the baseline."""
    whole = [trial for trial in trials if trial.complete]
    answering = [trial for trial in whole if not trial.failures.all] or whole
    least = min(answering, key=lambda t: (t.failures.share, t.number != trials[0].number, t.number))
    return [
        trial
        for trial in answering
        if not any(is_outdone(trial.failures, trial.values, other.failures, other.values, objectives)
                   for other in (trials[0], least))
    ]  # fmt: skip


def is_outdone(
    failures: Failures,
    values: Sequence[float],
    other_failures: Failures,
    other_values: Sequence[float],
    objectives: Sequence[Objective],
) -> bool:
    """Whether a program failed much more often than another and scored no better. Values are signed means."""
    if failures.share <= other_failures.share + FAILING + 1e-9:
        return False
    index = next((index for index, objective in enumerate(objectives) if objective.sign > 0), None)
    if index is None:
        return True
    worst = min(0.0, (objectives[index].metric.bounds or (0.0, 1.0))[0])
    mine = values[index] + worst * failures.share
    return mine <= other_values[index] + worst * other_failures.share


def _among_equals(trial: TrialResult, base: TrialResult) -> tuple[float, ...]:
    """The sort key among trials with equal scores."""
    return (trial.failures.n, trial.number != base.number, trial.tokens, trial.number)


def pareto_front(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """The eligible trials that no other dominates: the Pareto front, in the order of trials.

    Of trials with equal values only one is returned, by the tie-breaking order. With one objective all
    eligible trials are returned, because the best of them is decided by shrinkage.
    """
    whole = eligible_trials(trials, objectives)
    if len(objectives) == 1:
        return whole
    unique: dict[tuple[float, ...], TrialResult] = {}
    for trial in sorted(whole, key=lambda t: _among_equals(t, trials[0])):
        unique.setdefault(trial.values, trial)
    undominated = [
        t for t in unique.values() if not any(dominated(t.values, o.values) for o in unique.values())
    ]
    return sorted(undominated, key=lambda t: t.number)


def _differences(trial: TrialResult, base: TrialResult, objective: Objective) -> list[float]:
    pairs = zip(trial.series(objective), base.series(objective), strict=True)
    return [mine - other for mine, other in pairs]


def _common(means: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """The mean difference and the variance between trials beyond that of the questions."""
    if not all(errors):
        return _mean(means), math.inf  # without sampling error nothing is shrunk
    weights = [1 / error for error in errors]
    total = math.fsum(weights)
    centre = math.fsum(w * m for w, m in zip(weights, means, strict=True)) / total
    spread = math.fsum(w * (m - centre) ** 2 for w, m in zip(weights, means, strict=True))
    scale = total - math.fsum(w * w for w in weights) / total
    between = max(0.0, (spread - (len(means) - 1)) / scale) if scale > 0 else 0.0
    if not between:
        return centre, 0.0
    again = [1 / (between + error) for error in errors]
    return math.fsum(w * m for w, m in zip(again, means, strict=True)) / math.fsum(again), between


def _floor_errors(errors: Sequence[float]) -> list[float]:
    """Raises each squared error to at least a quarter of the mean.

    A trial that answers nearly as the baseline does would otherwise look exact.
    """
    least = _mean(errors) / 4
    return [max(error, least) for error in errors]


def _squared_error(line: Sequence[float]) -> float:
    n = len(line)
    mean = _mean(line)
    return math.fsum((value - mean) ** 2 for value in line) / (n - 1) / n if n > 1 else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
