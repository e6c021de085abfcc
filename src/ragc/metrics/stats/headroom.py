"""Estimates from the scores of a few settings on the same questions what a search among many can gain.

A matrix has a row a setting, the baseline first, and a column a question. Scores are modelled as the sum of
an effect of the setting, one of the question, and a rest (the two together, and the model's noise): a random
effects model with two ways (Searle, Casella and McCulloch 1992, Variance Components). The variance between
settings beyond the rest shows how much there is to choose from.

`expected_gain` assumes that true effects are normal around their mean, and that a search draws its trials at
random and compiles the best mean on the dev questions, the baseline included. The best of many is lucky, so
its expected gain is multiplied by the share of variance that is not luck. The interval is a generalized one
(Weerahandi 1993, doi:10.1080/01621459.1993.10476355): mean and variances are drawn from their distribution
given the observed sums of squares, and the gain is computed for each draw.

Questions in groups are not independent: a sum over questions has the error of as many independent ones as its
group sums indicate (`clusters`), and settings are shuffled within groups.

numpy is imported on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ragc.errors import UsageError
from ragc.metrics.stats.clusters import Groups, effective_share
from ragc.metrics.stats.intervals import Interval, Labels, mean_ci, size_of
from ragc.metrics.stats.power import Changes, changes_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Matrix = Sequence[Sequence[float]]

DRAWS = 1000
"""Draws of mean and variances for an interval."""

SEARCHES = 400
"""Searches that are averaged for each draw."""

SHUFFLES = 2000
"""Shuffles of settings within questions, for the test that settings differ."""

APART, ERRORS = 2.0, 3.0
"""The gap below which settings count as broken: in standard deviations of the means on either side, and in
standard errors of a mean."""

MIN_SETTINGS, MIN_QUESTIONS = 3, 5
"""The fewest settings, the baseline counted, and questions that say anything of the variance between."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Shares of questions, with intervals over questions.

    `never` is the share that no setting solved, `always` the one that every setting solved. `unseen` is an
    estimate of the share that only further settings would solve, a part of `never` (Chao 1987,
    doi:10.2307/2531532: from those that one or two settings solved).
    """

    never: Interval
    always: Interval
    unseen: float


@dataclass(frozen=True, slots=True)
class Noise:
    """The same program twice: how far its scores differ without any change.

    `changed` is the share of `n` questions whose score differs, `size` the mean absolute difference, and `sd`
    the standard deviation of a question's difference.
    """

    changed: float
    size: float
    sd: float
    n: int

    def of_mean(self, questions: int) -> float:
        """Returns the standard deviation of the difference between two means over `questions` questions."""
        return self.sd / questions**0.5 if questions else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """The settings of a matrix as random effects, relative to the baseline.

    `mean` is the mean lead of the settings over the baseline and `error` its variance from the questions
    alone. `between` and `within` are mean squares with their degrees of freedom `df`, and `variance` is that
    of true effects, 0 or more. `p` is that of the test that all settings, the baseline included, score alike.
    `independent` is the number of groups, None for independent questions. `broken` is the share of settings
    that lie far below all others (`_broken`): they are no part of the effects, and a search
    loses their trials.
    """

    mean: float
    error: float
    between: float
    within: float
    df: tuple[int, int]
    questions: int
    p: float
    independent: int | None = None
    broken: float = 0.0

    @property
    def variance(self) -> float:
        """The variance between the true means of settings."""
        return max(0.0, (self.between - self.within) / self.questions)


@dataclass(frozen=True, slots=True)
class Gain:
    """The expected gain over the baseline on new questions, and its 95% interval.

    `without_luck` is the gain if dev questions were unlimited.
    """

    value: float
    low: float
    high: float
    without_luck: float

    @property
    def shown(self) -> bool:
        """Whether the gain differs from 0 by more than chance."""
        return self.low > 0


def solved(scores: Matrix, full: float, groups: Labels | None = None) -> Solved:
    """Returns the shares of questions that are solved: whose score is at least half of `full`, the greatest.

    `groups` has the label of each question's group, as in `intervals.mean_ci`.
    """
    values = _checked(scores) >= full / 2 - 1e-9
    settings, times = len(values), values.sum(axis=0)
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    further = (settings - 1) / settings * once * (once - 1) / (2 * (twice + 1))
    never = [float(number == 0) for number in times]
    always = [float(number == settings) for number in times]
    unseen = min(further, sum(never)) / len(never)
    return Solved(mean_ci(never, seed=0, groups=groups), mean_ci(always, seed=0, groups=groups), unseen)


def noise(first: Sequence[float], second: Sequence[float], groups: Labels | None = None) -> Noise:
    """Returns the noise in two runs of one program over the same questions, in the same order.

    With `groups`, `sd` is that at which as many independent differences would make the mean as uncertain.
    """
    lines = _checked([first, second])
    differences = lines[1] - lines[0]
    n = len(differences)
    sd = float(differences.std(ddof=1)) if n > 1 else 0.0
    sd /= _share([differences], Groups.of(groups)) ** 0.5
    return Noise(float((abs(differences) > 1e-9).mean()), float(abs(differences).mean()), sd, n)


def changes(scores: Matrix) -> Changes | None:
    """Returns how any two of the settings differ question by question; None if none do."""
    values = _checked(scores)
    return changes_of([(b - a).round(12).tolist() for a, b in combinations(values, 2)])


def independent_share(scores: Matrix, groups: Labels | None) -> float:
    """Returns the share of independent questions among those of `scores`, by the differences between
    settings.
    """
    values = _checked(scores)
    return _share([b - a for a, b in combinations(values, 2)], Groups.of(groups))


def spread(scores: Matrix, *, seed: int, groups: Labels | None = None) -> Spread:
    """Returns the random effects of the settings in `scores`, the baseline first.

    With `groups`, the errors are those of independent questions that would leave means as uncertain. Raises
    UsageError for fewer than `MIN_SETTINGS` settings or `MIN_QUESTIONS` questions.
    """
    values = _checked(scores)
    settings, n = values.shape
    if settings < MIN_SETTINGS or n < MIN_QUESTIONS:
        raise UsageError(
            f"A variance between settings needs {MIN_SETTINGS} settings and {MIN_QUESTIONS} questions, "
            f"found {settings} and {n}."
        )
    working = ~_broken(values[1:])
    others = values[1:][working]
    leads = others.mean(axis=0) - values[0]
    between, within = _mean_squares(others)
    clusters = Groups.of(groups)
    rest = others - others.mean(axis=1, keepdims=True) - others.mean(axis=0)
    independent = size_of(clusters) or n
    return Spread(
        mean=float(leads.mean()),
        error=float(leads.var(ddof=1)) / n / _share([leads], clusters),
        between=between,
        within=within / _share(list(rest), clusters),
        df=(len(others) - 1, (len(others) - 1) * (independent - 1)),
        questions=n,
        p=_test_differences(values if clusters is None else clusters.sums(values.T).T, seed),
        independent=size_of(clusters),
        broken=1 - float(working.mean()),
    )


def expected_gain(seen: Spread, *, trials: int, dev: int, limit: float, seed: int) -> Gain:
    """Estimates the gain of a search of `trials` settings on `dev` questions.

    `limit` is the most by which any setting can exceed the baseline.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    first, second = seen.df
    within = seen.within * second / rng.chisquare(second, DRAWS)
    between = seen.between * first / rng.chisquare(first, DRAWS)
    variance = np.maximum(0.0, (between - within) / seen.questions)
    centre = seen.mean + np.sqrt(seen.error) * rng.standard_t((seen.independent or seen.questions) - 1, DRAWS)
    centre += np.sqrt(variance / (first + 1)) * rng.standard_normal(DRAWS)
    best, start = _luck(max(1, round(trials * (1 - seen.broken))), rng)
    drawn = _gains(centre, variance, within, best, start, dev, limit)
    # A mean lead within its error is shrunk (James and Stein 1961, positive part): much of it is luck.
    weight = max(0.0, 1 - seen.error / seen.mean**2) if seen.mean else 0.0
    at = np.array([weight * seen.mean]), np.array([seen.variance]), np.array([seen.within])
    value = _gains(*at, best, start, dev, limit)[0]
    without = _gains(*at, best, start, 10**9, limit)[0]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Gain(float(value), float(min(low, value)), float(max(high, value)), float(without))


def _broken(values: Array) -> NDArray[np.bool_]:
    """Returns which settings (rows) are broken: the widest gap between means is below at least three others,
    and wider than `APART` and `ERRORS` say.

    A few of them would otherwise widen the distribution of the others upwards, too.
    """
    import numpy as np

    means = values.mean(axis=1)
    order = np.argsort(means, kind="stable")
    gaps = np.diff(means[order])[: len(means) - MIN_SETTINGS]
    none: NDArray[np.bool_] = np.zeros(len(means), dtype=bool)
    if not len(gaps):
        return none
    below = int(gaps.argmax()) + 1
    above = order[below:]
    error = (_mean_squares(values[above])[1] / values.shape[1]) ** 0.5
    deviations = float(means[above].std(ddof=1)), float(means[order[:below]].std())
    if gaps[below - 1] > max(APART * max(deviations), ERRORS * error):
        none[order[:below]] = True
    return none


def _share(lines: Sequence[Array], groups: Groups | None) -> float:
    """Returns the mean share of independent questions in the mean of each of `lines`; 1 without `groups`."""
    if groups is None or not lines:
        return 1.0
    return sum(effective_share(line, groups) for line in lines) / len(lines)


def _gains(
    centre: Array, variance: Array, within: Array, best: Array, start: Array, dev: int, limit: float
) -> Array:
    """Returns the mean true lead of the compiled setting, for each element of the first three arguments."""
    import numpy as np

    error = within / dev
    scale, total = np.sqrt(error)[:, None], np.sqrt(variance + error)[:, None]
    share = np.divide(variance, variance + error, out=np.zeros_like(variance), where=variance + error > 0)
    lead = centre[:, None] + total * best
    true = np.minimum(centre[:, None] + share[:, None] * total * best, limit)
    gains: Array = np.where(lead > scale * start, true, 0.0).mean(axis=1)
    return gains


def _luck(trials: int, rng: Any) -> tuple[Array, Array]:
    """Returns the greatest of `trials` standard normal values, and one for the baseline, `SEARCHES` times.

    Both are evenly spread quantiles, of which fewer are needed than of random draws; the second are in random
    order.
    """
    from numpy import arange
    from scipy.special import ndtri

    levels = (arange(SEARCHES) + 0.5) / SEARCHES
    return ndtri(levels ** (1 / trials)), rng.permutation(ndtri(levels))


def _mean_squares(values: Array) -> tuple[float, float]:
    """Returns the mean squares between settings (rows) and of the rest."""
    settings, n = values.shape
    rows, columns = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    rest = values - rows - columns + values.mean()
    between = n * float(((rows - values.mean()) ** 2).sum()) / (settings - 1)
    return between, float((rest**2).sum()) / ((settings - 1) * (n - 1))


def _test_differences(values: Array, seed: int) -> float:
    """Returns the p-value of the variance between rows, with rows shuffled within each column."""
    import numpy as np

    rng = np.random.default_rng(seed)
    observed = float(values.mean(axis=1).var()) - 1e-12
    size, extreme = max(1, 2_000_000 // values.size), 0
    for start in range(0, SHUFFLES, size):
        copies = np.tile(values, (min(size, SHUFFLES - start), 1, 1))
        variances = rng.permuted(copies, axis=1).mean(axis=2).var(axis=1)
        extreme += int((variances >= observed).sum())
    return (extreme + 1) / (SHUFFLES + 1)


def _checked(scores: Matrix) -> Array:
    """Returns `scores` as an array. Raises UsageError for missing cells and values that are not finite."""
    import numpy as np

    if len({len(row) for row in scores}) != 1 or not len(scores[0]):
        sizes = ", ".join(str(len(row)) for row in scores) or "none"
        raise UsageError(f"Every setting needs a score for the same questions, but there are {sizes}.")
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise UsageError("Scores must be finite numbers. Leave out questions that were not scored.")
    return values
