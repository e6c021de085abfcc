"""Coverage and width of the intervals, and errors of the verdict, by simulation.

    PYTHONPATH=src python experiments/benchmarks/scoring/significance.py [REPEATS]
        [means|pairs|verdicts|families]...

A 95% interval should cover in 95% of repeats and be narrow; the verdict should be wrong in at most 5%. With
1000 repeats the simulation error of a coverage is 1.4 points. Percentile, BCa and Student's t are printed
beside `mean_ci` and `paired`, the means that they replace. Families compare many variants with a baseline: in
how many a variant without an effect is claimed to have one, and how many of the real effects are shown, by
single tests, Bonferroni, Holm and the step-down maximum. Without names all parts run, which takes an hour.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from ragc.metrics.stats.resample import (
    Contrast,
    ContrastResult,
    adjust_family,
    holm,
    mean_ci,
    paired,
    verdict,
)

Draw = Callable[[np.random.Generator, int], np.ndarray]
Ends = Callable[[np.ndarray, int], tuple[float, float]]
SIZES = (20, 50, 100, 200, 500)


def bernoulli(p: float) -> Draw:
    return lambda rng, n: (rng.random(n) < p).astype(float)


def token_f1(none: float, all_: float) -> Draw:
    """0 with probability `none`, 1 with `all_`, else partial, with mean .5."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        which, part = rng.random(n), rng.beta(3, 3, n)
        return np.where(which < none, 0.0, np.where(which < none + all_, 1.0, part))

    return draw


def differences(win: float, lose: float) -> Draw:
    """Differences of F1: 0 for most questions, half of the others +-1, half partial with mean +-.5."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        which, size = rng.random(n), np.where(rng.random(n) < 0.5, 1.0, rng.beta(2, 2, n))
        return np.where(which < win, size, np.where(which < win + lose, -size, 0.0))

    return draw


def skewed_differences(rng: np.random.Generator, n: int) -> np.ndarray:
    """Mean 0: few great losses against many small gains, where signs are not exchangeable."""
    which = rng.random(n)
    return np.where(which < 0.05, -1.0, np.where(which < 0.30, 0.2, 0.0))


MEANS: tuple[tuple[str, Draw, float], ...] = (
    ("Bernoulli .1", bernoulli(0.1), 0.1),
    ("Bernoulli .5", bernoulli(0.5), 0.5),
    ("Bernoulli .97", bernoulli(0.97), 0.97),
    ("beta(2, 5)", lambda rng, n: rng.beta(2, 5, n), 2 / 7),
    ("F1, 40% zero", token_f1(0.40, 0.35), 0.475),
    ("F1, 85% zero", token_f1(0.85, 0.05), 0.10),
)
PAIRS: tuple[tuple[str, Draw, float], ...] = (
    ("80% zeros, no effect", differences(0.10, 0.10), 0.0),
    ("80% zeros, wins 3:1", differences(0.15, 0.05), 0.075),
    ("80% zeros, only wins", differences(0.20, 0.0), 0.15),
    ("95% zeros, no effect", differences(0.025, 0.025), 0.0),
    ("skewed, no effect", skewed_differences, 0.0),
)


def scipy_interval(values: np.ndarray, seed: int, method: str) -> tuple[float, float]:
    if method == "t":
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        return values.mean() - half, values.mean() + half
    if values.min() == values.max():
        return values.mean(), values.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = stats.bootstrap((values,), np.mean, n_resamples=1000, method=method, rng=seed)
    return interval.confidence_interval.low, interval.confidence_interval.high


def ours(values: np.ndarray, seed: int) -> tuple[float, float]:
    interval = mean_ci(values.tolist(), seed=seed)
    return interval.low, interval.high


def our_paired_interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    result = paired(np.maximum(-values, 0.0).tolist(), np.maximum(values, 0.0).tolist(), seed=seed)
    return result.low, result.high


def coverage(draw: Draw, truth: float, n: int, repeats: int, interval: Ends) -> str:
    rng = np.random.default_rng(n)
    ends = np.array([interval(draw(rng, n), seed) for seed in range(repeats)])
    covered = ((ends[:, 0] <= truth + 1e-9) & (ends[:, 1] >= truth - 1e-9)).mean()
    return f"{covered:.3f} / {(ends[:, 1] - ends[:, 0]).mean():.3f}"


def table(title: str, rows: tuple[tuple[str, Draw, float], ...], mine: Ends, repeats: int) -> None:
    others = ("t", "percentile", "BCa")
    methods: dict[str, Ends] = {
        "ragc": mine,
        **{name: partial(scipy_interval, method=name) for name in others},
    }
    print(f"\n{title}: coverage / mean width\n{'shape':22}{'n':>4}  " + "".join(f"{m:16}" for m in methods))
    for name, draw, truth in rows:
        for n in SIZES:
            cells = (coverage(draw, truth, n, repeats, method) for method in methods.values())
            print(f"{name:22}{n:4}  " + "".join(f"{cell:16}" for cell in cells), flush=True)


def verdicts(repeats: int) -> None:
    print("\nverdict: share called better / worse where there is no effect")
    for name, draw, truth in PAIRS:
        for n in SIZES if truth == 0 else ():
            rng, called = np.random.default_rng(n), []
            for seed in range(repeats):
                values = draw(rng, n)
                a, b = np.maximum(-values, 0.0).tolist(), np.maximum(values, 0.0).tolist()
                called.append(verdict(paired(a, b, seed=seed)))
            better, worse = (called.count(word) / repeats for word in ("better", "worse"))
            print(f"{name:22}{n:4}  {better:.3f} / {worse:.3f}", flush=True)


def family(rng: np.random.Generator, n: int, variants: int, real: int) -> np.ndarray:
    """0/1 scores, systems x questions: a baseline, then variants that answer 30% of questions anew.

    All are right with probability .5, but the first `real` variants are raised by 15 points or so.
    """
    base = rng.random(n) < 0.5
    anew = rng.random((variants, n)) < 0.3
    scores = np.where(anew, rng.random((variants, n)) < 0.5, base)
    scores[:real] |= rng.random((real, n)) < 0.3
    return np.vstack([base, scores]).astype(float)


def judge_variants(scores: np.ndarray, seed: int) -> list[ContrastResult]:
    """Every variant against the baseline, the first row."""
    base, *others = ({str(q): float(value) for q, value in enumerate(row)} for row in scores)
    return [one for one in adjust_family([Contrast(base, other) for other in others], seed=seed) if one]


def families(repeats: int) -> None:
    """A variant's true gain is 0, or .15: 30% of its wrong answers put right."""
    ways = ("alone", "Bonferroni", "Holm", "max-t")
    head = "".join(f"{way:>16}" for way in ways)
    print(
        f"\nfamilies: false claim in any / share of real effects shown\n{'variants (real)':18}{'n':>4}{head}"
    )
    for variants, real in ((5, 0), (5, 2), (20, 0), (20, 5)):
        for n in (20, 50, 200):
            rng = np.random.default_rng(n)
            false, shown, covered = np.zeros(4), np.zeros(4), 0
            truth = np.where(np.arange(variants) < real, 0.15, 0.0)
            for seed in range(repeats):
                results = judge_variants(family(rng, n, variants, real), seed)
                p = np.array([one.result.p for one in results])
                ways_p = (
                    p,
                    p * variants,
                    np.array(holm(p.tolist())),
                    np.array([one.adjusted for one in results]),
                )
                claimed = np.array(ways_p) < 0.05
                false += claimed[:, real:].any(axis=1)
                shown += claimed[:, :real].mean(axis=1) if real else 0.0
                inside = [
                    one.low - 1e-9 <= t <= one.high + 1e-9 for one, t in zip(results, truth, strict=True)
                ]
                covered += all(inside)
            cells = "".join(
                f"{f / repeats:>8.3f} /{s / repeats:6.3f}" for f, s in zip(false, shown, strict=True)
            )
            print(
                f"{variants:3} ({real})          {n:4}{cells}  all covered {covered / repeats:.3f}",
                flush=True,
            )


PARTS: dict[str, Callable[[int], None]] = {
    "means": lambda repeats: table("means", MEANS, ours, repeats),
    "pairs": lambda repeats: table("paired differences", PAIRS, our_paired_interval, repeats),
    "verdicts": verdicts,
    "families": families,
}

if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name in sys.argv[2:] or PARTS:
        PARTS[name](repeats)
