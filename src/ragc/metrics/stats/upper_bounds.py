"""One-sided bounds of costs on new questions: of their mean and of a quantile.

Costs such as tokens and seconds are skewed to the right, where the upper bound of a t interval is too low.
The upper bound of the mean is therefore the greatest of three: that of t, of the studentized bootstrap (Efron
and Tibshirani 1993, 12.5), and of a log-normal distribution (Krishnamoorthy and Mathew 2003,
doi:10.1016/S0378-3758(02)00153-2), which is exact for one. How
often it lies under the truth was measured, see experiments/LOG.md. The bound of a quantile is an order
statistic, which holds for any distribution. numpy and scipy are imported on first use.

Where one of several costs is chosen, each is bounded at `alpha` divided by their number (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragc.metrics.stats.resampling import Array

RESAMPLES = 4_000
PIVOTS = 20_000
"""Draws of the generalized pivot of a log-normal mean."""

_MAX_DRAWN = 1_000_000
"""The most values that are drawn at once, which bounds the memory."""

_MAX_LOG = 700.0
"""The logarithm of about the greatest number."""


def mean_upper_bound(values: Sequence[float], alpha: float = 0.05, *, seed: int = 0) -> float:
    """Returns a bound that the true mean exceeds with a probability of about `alpha`; infinity if unknown.

    Unknown is the mean of fewer than two values and of values that are not finite. Equal values are their own
    bound. `alpha` lies between 0 and 0.5.
    """
    import numpy as np

    array = np.asarray(values, dtype=float)
    n = len(array)
    if n < 2 or not np.isfinite(array).all():
        return math.inf
    mean, error = float(array.mean()), float(array.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-12 * abs(mean):
        return mean
    bounds = [_bound_of_t(mean, error, n, alpha), _bound_of_bootstrap(array, mean, error, alpha, seed)]
    if array.min() > 0:
        bounds.append(_bound_of_log_normal(np.log(array), alpha, seed))
    return max(bounds)


def mean_lower_bound(values: Sequence[float], alpha: float = 0.05) -> float:
    """Returns a bound that the true mean lies under with a probability of about `alpha`, by t; 0 if unknown.

    For values that are skewed to the right it is careful.
    """
    import numpy as np

    array = np.asarray(values, dtype=float)
    n = len(array)
    if n < 2 or not np.isfinite(array).all():
        return 0.0
    return max(0.0, _bound_of_t(float(array.mean()), -float(array.std(ddof=1)) / math.sqrt(n), n, alpha))


def _bound_of_t(mean: float, error: float, n: int, alpha: float) -> float:
    from scipy.special import stdtrit

    return mean - float(stdtrit(n - 1, alpha)) * error


def _bound_of_bootstrap(array: Array, mean: float, error: float, alpha: float, seed: int) -> float:
    import numpy as np

    n, generator = len(array), np.random.default_rng(seed)
    size = max(1, _MAX_DRAWN // n)
    means, errors = np.empty((2, RESAMPLES))
    for start in range(0, RESAMPLES, size):
        samples = array[generator.integers(n, size=(min(size, RESAMPLES - start), n))]
        block = slice(start, start + size)
        means[block], errors[block] = samples.mean(axis=1), samples.std(axis=1, ddof=1) / math.sqrt(n)
    varied = errors > 1e-12 * abs(mean)
    ratios = (means[varied] - mean) / errors[varied]
    return mean - float(np.quantile(ratios, alpha)) * error


def _bound_of_log_normal(logs: Array, alpha: float, seed: int) -> float:
    """Returns the upper bound of the mean of a log-normal distribution; `logs` are logarithms of its
    values.
    """
    import numpy as np

    centre, spread = float(logs.mean()), float(logs.std(ddof=1))
    error, half_variance = _pivots(len(logs), seed)
    bound = float(np.quantile(centre + spread * error + spread**2 * half_variance, 1 - alpha))
    return math.exp(bound) if bound < _MAX_LOG else math.inf


@lru_cache(maxsize=64)
def _pivots(n: int, seed: int) -> tuple[Array, Array]:
    """Returns draws of what is unknown of `n` normal values with unit variance: the error of their mean in
    units of their spread, and half of the true variance.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    normal, squares = generator.normal(size=PIVOTS), generator.chisquare(n - 1, PIVOTS) / (n - 1)
    return normal / np.sqrt(squares * n), 0.5 / squares


def quantile_upper_bound(values: Sequence[float], level: float, alpha: float = 0.05) -> float:
    """Returns a bound that the true quantile exceeds with a probability of at most `alpha`.

    This is the least order statistic with that guarantee; infinity if there is none. For level .95 and alpha
    .05 that takes 59 values.
    """
    from scipy.special import bdtr

    ordered = sorted(values)
    n = len(ordered)
    if any(not math.isfinite(value) for value in ordered):
        return math.inf
    # The k-th of n lies under the quantile if at least k values do.
    return next((ordered[k - 1] for k in range(1, n + 1) if 1 - bdtr(k - 1, n, level) <= alpha), math.inf)


def quantile_lower_bound(values: Sequence[float], level: float, alpha: float = 0.05) -> float:
    """Returns a bound that the true quantile lies under with a probability of at most `alpha`; 0 if there is
    none.
    """
    from scipy.special import bdtr

    ordered = sorted(values)
    n = len(ordered)
    # The k-th of n lies above the quantile if fewer than k values are at most the quantile.
    return next((ordered[k - 1] for k in range(n, 0, -1) if bdtr(k - 1, n, level) <= alpha), 0.0)
