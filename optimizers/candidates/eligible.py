"""The trials of a study that may win: those that saw enough and did not fail too often.

Only eligible trials can win, be a rival in a race or be on the front:

- The trial saw all dev questions. With one objective the winner may have seen a part of them: a search that
  its budget cut off has few complete trials (`search.allocation.least_to_win`).
- It costs no more than the limits of the recipe allow, unless every trial does (`within_limits`).
- It answered at least one question, unless no trial did.
- Its share of failed questions may exceed that of the baseline, and that of the trial that failed least, by
  at most `FAILING`. Beyond that it must still have the higher mean in the first objective of which more is
  better, with each failed question at the metric's least score. Costs are ignored here, because a failed
  question may be cheap. In a study of costs alone such a trial, the baseline included, is not eligible.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragc.metrics.base import Objective
from ragc.metrics.failures import Failures
from ragc.metrics.limits import CostLimit
from ragc.optimizers.candidates.trial import TrialResult

FAILING = 0.1
"""A trial whose share of failures exceeds another's by more than this must score better than the other."""


def eligible_trials(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """Returns the trials that may lead or win (see above); none before the first is complete.

    The first of `trials` is the baseline.
    """
    whole = [trial for trial in trials if trial.complete]
    if not whole:
        return []
    answering = [trial for trial in whole if not trial.failures.all] or whole
    least = min(answering, key=lambda t: (t.failures.share, t.number != trials[0].number, t.number))
    return [
        trial
        for trial in answering
        if not any(is_outdone(trial.failures, trial.values, other.failures, other.values, objectives)
                   for other in (trials[0], least))
    ]  # fmt: skip


def within_limits(trials: Sequence[TrialResult], limits: Sequence[CostLimit]) -> list[TrialResult]:
    """Returns the trials within all `limits` on the questions that they saw; if none is, the nearest to them.

    The nearest exceeds a limit by the least share of it.
    """
    if not limits or not trials:
        return list(trials)
    excess = [most_excess(trial, limits) for trial in trials]
    least = max(0.0, min(excess))
    return [trial for trial, share in zip(trials, excess, strict=True) if share <= least]


def most_excess(trial: TrialResult, limits: Sequence[CostLimit]) -> float:
    """Returns the greatest share by which `trial` exceeds one of `limits`; at most 0 within all of them."""
    return max((limit.excess(trial.scores) for limit in limits), default=0.0)


def promising_trials(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> list[TrialResult]:
    """Returns the eligible trials, and with one objective those that saw a part and may still win."""
    eligible = eligible_trials(trials, objectives)
    if len(objectives) > 1 or not eligible:
        return eligible
    waiting = [t for t in trials if not t.complete and not is_hopeless(t, trials[0], objectives[0])]
    return sorted([*eligible, *waiting], key=lambda trial: trial.number)


def is_outdone(
    failures: Failures,
    values: Sequence[float],
    other_failures: Failures,
    other_values: Sequence[float],
    objectives: Sequence[Objective],
) -> bool:
    """Returns whether a program failed much more often than another and scored no better. Values are signed
    means.
    """
    if failures.share <= other_failures.share + FAILING + 1e-9:
        return False
    index = next((index for index, objective in enumerate(objectives) if objective.sign > 0), None)
    if index is None:
        return True
    worst = min(0.0, (objectives[index].metric.bounds or (0.0, 1.0))[0])
    mine = values[index] + worst * failures.share
    return mine <= other_values[index] + worst * other_failures.share


def is_hopeless(trial: TrialResult, baseline: TrialResult, objective: Objective) -> bool:
    """Returns whether `trial` answered nothing, or failed much more often than `baseline` and scored no
    better.
    """
    return trial.failures.all or is_outdone(
        trial.failures, trial.values, baseline.failures, baseline.values, [objective]
    )
