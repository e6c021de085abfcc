"""Which complete trial is compiled, with shrinkage against the winner's curse.

The best of many means is too good: the more trials, and the fewer questions, the more of its lead is luck.
Each trial's paired difference to the baseline d, with standard error s, is therefore drawn towards what the
trials of the study have in common (a random-effects model, DerSimonian and Laird 1986): with m the mean of
the differences and t2 the variance between trials beyond what the questions explain, the expected difference
is m + (d - m) t2 / (t2 + s2). The baseline's own is 0 and exact. Trials that differ much are left alone;
where all is noise, the study says that it expects no more of the winner than of the others.

The winner is the trial with the greatest expected value; equals go to the higher mean, then to fewer failed
questions, then to the baseline, then to fewer tokens a question, then to the earlier trial.

Not every trial takes part, neither here nor as a rival in a race or on a front:

- Only those that saw all dev questions.
- None that failed in all of them, while another answered any.
- One that failed in a share of them greater by more than `FAILING` than the baseline's, or than that of the
  trial that failed least, only where it still beats that one's mean in the first objective of which more is
  better, with a failed question at the least that the metric gives. Costs do not count for that, since
  a failed question may well be cheap; in a study of costs alone such a trial is out, the baseline too.
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
"""A trial that fails in so many more questions than another, as a share, must answer better than it."""


@dataclass(frozen=True, slots=True)
class ShrunkenMean:
    """What to expect of a trial beyond this dev set: its signed mean, and how much was taken off it."""

    value: float
    shrunk: float

    def to_json(self) -> dict[str, float]:
        """JSON values only."""
        return {"value": round(self.value, 6), "shrunk": round(self.shrunk, 6)}


def shrunken_means(trials: Sequence[TrialResult], objective: Objective) -> dict[int, ShrunkenMean]:
    """By trial number, what to expect of every complete trial; the first of `trials` is the baseline."""
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
    """The trial to compile: of the front, where there are several objectives, the best by `pick`."""
    hopes = shrunken_means(trials, pick)
    pick_index = list(objectives).index(pick)

    def rank(trial: TrialResult) -> tuple[float, ...]:
        hope = round(hopes[trial.number].value, 9)
        return (-hope, -round(trial.values[pick_index], 12), *_among_equals(trial, trials[0]))

    return min(pareto_front(trials, objectives), key=rank)


def best(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> TrialResult:
    """The leader: the highest mean of the first objective; `select` chooses what is compiled.

    Ties go as those of the winner do.
    """
    return min(
        eligible_trials(trials, objectives),
        key=lambda t: (-round(t.values[0], 12), *_among_equals(t, trials[0])),
    )


def eligible_trials(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """The trials that may lead or win, as this file says; the first of `trials` is the baseline."""
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
    """Whether what failed so often, with these signed means, failed much more than another for nothing."""
    if failures.share <= other_failures.share + FAILING + 1e-9:
        return False
    index = next((index for index, objective in enumerate(objectives) if objective.sign > 0), None)
    if index is None:
        return True
    worst = min(0.0, (objectives[index].metric.bounds or (0.0, 1.0))[0])
    mine = values[index] + worst * failures.share
    return mine <= other_values[index] + worst * other_failures.share


def _among_equals(trial: TrialResult, base: TrialResult) -> tuple[float, ...]:
    """The order of trials that are as good as each other."""
    return (trial.failures.n, trial.number != base.number, trial.tokens, trial.number)


def pareto_front(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """The trials that take part and that none of them beats: the Pareto front, in the order of trials.

    Of trials with equal values only one stays, chosen as among equals for the winner. With one objective
    all that take part are given back, for the best of those is a question of shrinkage.
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
        return _mean(means), math.inf  # no trial differs from the baseline by chance
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
    """One that answers nearly as the baseline does seems exact; none counts as more than twice as sure."""
    least = _mean(errors) / 4
    return [max(error, least) for error in errors]


def _squared_error(line: Sequence[float]) -> float:
    n = len(line)
    mean = _mean(line)
    return math.fsum((value - mean) ** 2 for value in line) / (n - 1) / n if n > 1 else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
