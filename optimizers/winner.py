"""Which complete trial is compiled, with shrinkage against the winner's curse.

The best of many means is too good: the more trials, and the fewer questions, the more of its lead is luck.
Each trial's paired difference to the baseline d, with standard error s, is therefore drawn towards what the
trials of the study have in common (a random-effects model, DerSimonian and Laird 1986): with m the mean of
the differences and t2 the variance between trials beyond what the questions explain, the expected difference
is m + (d - m) t2 / (t2 + s2). The baseline's own is 0 and exact. Trials that differ much are left alone;
where all is noise, the study says that it expects no more of the winner than of the others.

The winner is the trial with the greatest expected value; equals go to the higher mean, then to fewer tokens
a question, then to the earlier trial. Only trials that saw all dev questions take part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragc.optimizers.racing import beaten
from ragc.optimizers.trials import Objective, Tried


@dataclass(frozen=True, slots=True)
class Expected:
    """What to expect of a trial beyond this dev set: its signed mean, and how much was taken off it."""

    value: float
    shrunk: float

    def to_json(self) -> dict[str, float]:
        """JSON values only."""
        return {"value": round(self.value, 6), "shrunk": round(self.shrunk, 6)}


def expected(trials: Sequence[Tried], objective: Objective) -> dict[int, Expected]:
    """By trial number, what to expect of every complete trial; the first of `trials` is the baseline."""
    whole = [trial for trial in trials if trial.complete]
    base, *others = whole
    start = _mean(base.series(objective))
    found = {base.number: Expected(start, 0.0)}
    if not others:
        return found
    lines = [_differences(trial, base, objective) for trial in others]
    means = [_mean(line) for line in lines]
    errors = _floored([_squared_error(line) for line in lines])
    centre, between = _common(means, errors)
    for trial, mean, error in zip(others, means, errors, strict=True):
        kept = 1 / (1 + error / between) if between else 0.0
        value = centre + (mean - centre) * kept
        found[trial.number] = Expected(start + value, mean - value)
    return found


def winner(trials: Sequence[Tried], objectives: Sequence[Objective], pick: Objective) -> Tried:
    """The trial to compile: of the front, where there are several objectives, the best by `pick`."""
    hopes = expected(trials, pick)
    place = list(objectives).index(pick)

    def rank(trial: Tried) -> tuple[float, float, float, int]:
        hope = round(hopes[trial.number].value, 9)
        return (-hope, -round(trial.values[place], 12), trial.tokens, trial.number)

    return min(front(trials), key=rank)


def front(trials: Sequence[Tried]) -> list[Tried]:
    """The complete trials that no other complete trial beats: the Pareto front, in the order of trials.

    Of trials with equal values only the cheapest, then the first, stays. With one objective all
    complete trials are given back, for the best of those is a question of shrinkage.
    """
    whole = [trial for trial in trials if trial.complete]
    if whole and len(whole[0].values) == 1:
        return whole
    unique: dict[tuple[float, ...], Tried] = {}
    for trial in sorted(whole, key=lambda t: (t.tokens, t.number)):
        unique.setdefault(trial.values, trial)
    kept = [t for t in unique.values() if not any(beaten(t.values, o.values) for o in unique.values())]
    return sorted(kept, key=lambda t: t.number)


def _differences(trial: Tried, base: Tried, objective: Objective) -> list[float]:
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


def _floored(errors: Sequence[float]) -> list[float]:
    """One that answers nearly as the baseline does seems exact; none counts as more than twice as sure."""
    least = _mean(errors) / 4
    return [max(error, least) for error in errors]


def _squared_error(line: Sequence[float]) -> float:
    n = len(line)
    mean = _mean(line)
    return math.fsum((value - mean) ** 2 for value in line) / (n - 1) / n if n > 1 else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
