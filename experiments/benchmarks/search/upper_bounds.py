"""How often an upper bound of a cost lies under the truth, on skewed costs.

    python -m experiments.benchmarks.search.upper_bounds [STUDIES]

Costs are log-normal, gamma, and a mixture in which one of ten questions takes five times as long (a retry).
Prints, by number of questions and kind, the share of studies whose true mean exceeds its bound, beside that
of a plain t bound, and the same for the 95th percentile. The aim is at most .05 at alpha .05, and .005 at
.005, as for the ten bounds of five programs with two limits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from ragc.metrics.stats.upper_bounds import mean_upper_bound, quantile_upper_bound

SIZES, ALPHAS = (20, 60, 150), (0.05, 0.005)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

KINDS: dict[str, tuple[Draw, float]] = {
    "log-normal, sd .5": (lambda rng, size: rng.lognormal(0, 0.5, size), math.exp(0.125)),
    "log-normal, sd 1": (lambda rng, size: rng.lognormal(0, 1, size), math.exp(0.5)),
    "gamma, shape 2": (lambda rng, size: rng.gamma(2, 1, size), 2.0),
    "a tenth takes five times": (
        lambda rng, size: rng.lognormal(0, 0.2, size) * np.where(rng.random(size) < 0.1, 5, 1),
        math.exp(0.02) * 1.4,
    ),
}


def main(studies: int) -> None:
    """Prints a row for each kind, size and alpha."""
    print(f"{studies} studies a row; share of true values above their bound")
    print(f"{'costs':<26} questions  alpha   mean  by t    p95  p95 bounded")
    for kind, (draw, mean) in KINDS.items():
        p95 = float(np.quantile(draw(np.random.default_rng(0), (1, 1_000_000)), 0.95))
        for n in SIZES:
            rows = draw(np.random.default_rng(n), (studies, n))
            for alpha in ALPHAS:
                missed = np.mean([mean_upper_bound(row, alpha) < mean for row in rows])
                plain = rows.mean(1) - stdtrit(n - 1, alpha) * rows.std(1, ddof=1) / math.sqrt(n)
                bounds = np.array([quantile_upper_bound(row, 0.95, alpha) for row in rows])
                print(
                    f"{kind:<26} {n:9} {alpha:6} {missed:6.3f} {np.mean(plain < mean):5.3f} "
                    f"{np.mean(bounds < p95):6.3f} {np.isfinite(bounds).mean():6.2f}"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
