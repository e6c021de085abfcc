"""Three open kinds, written after the closed run of 2026-11-26 against the faults that it showed.

They are drawn like those of `kinds`: a new surface for every seed, scores of 0 and 1. They take no part in
the lot. Ranges are uniform unless they say otherwise:

| kind | what is drawn |
| --- | --- |
| tuned-baseline | 48 settings; the baseline is the best of a share (0 to 1) of them, and 0 to 1 better |
| few-cells | 12 to 24 settings, 24 to 48 questions; the baseline is at the 30th to 100th percentile |
| broken-mixed | 48 settings, of which .1 to .5 answer next to nothing; the baseline is no broken one |

Common to all: effects of values have a deviation of .05 to .4, those of each setting 0 to .2, in logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import expit

from experiments.benchmarks.search.choosing.kinds import FRESH, LEVELS, _grid, _values
from experiments.benchmarks.search.choosing.worlds import Array, World

QUESTIONS = 60
BROKEN = -6.0
"""The effect of a setting that is broken, in logits."""


def _world(
    rng: np.random.Generator, settings: list[dict[str, str]], effects: Array, baseline: int, questions: int,
    share: float,
) -> World:  # fmt: skip
    """A world of 0/1 scores from effects in logits, of which `share` may be asked for."""
    ease, own, centre = rng.uniform(0.5, 2.5), rng.uniform(0.2, 0.8), rng.uniform(-1.5, 1)

    def chances(n: int) -> Array:
        noise = rng.normal(0, ease, n) + rng.normal(0, own, (len(effects), n))
        chance: Array = expit(centre + effects[:, None] + noise)
        return chance

    dev = (rng.random((len(effects), questions)) < chances(questions)).astype(float)
    return World(settings, baseline, dev, chances(FRESH).mean(1), int(share * dev.size))


def _effects(rng: np.random.Generator, levels: tuple[int, ...]) -> tuple[list[dict[str, str]], Array]:
    codes, settings = _grid(levels)
    effects = _values(rng, codes, rng.uniform(0.05, 0.4)) + rng.normal(0, rng.uniform(0, 0.2), len(codes))
    return settings, effects - effects.mean()


def tuned_baseline(rng: np.random.Generator, share: float) -> World:
    """Somebody tuned the baseline: it is good for its values, and better than these say."""
    settings, effects = _effects(rng, LEVELS)
    tried = rng.choice(len(effects), max(1, round(rng.uniform(0, 1) * len(effects))), replace=False)
    baseline = int(tried[effects[tried].argmax()])
    effects[baseline] += rng.uniform(0, 1)
    return _world(rng, settings, effects, baseline, QUESTIONS, share)


def few_cells(rng: np.random.Generator, share: float) -> World:
    """A small table: few settings, few questions."""
    levels = [(4, 3), (4, 4), (3, 3, 2), (5, 4), (4, 3, 2)][int(rng.integers(5))]
    settings, effects = _effects(rng, levels)
    baseline = int(np.argsort(effects, kind="stable")[round(rng.uniform(0.3, 1) * (len(effects) - 1))])
    return _world(rng, settings, effects, baseline, int(rng.integers(24, 49)), share)


def broken_mixed(rng: np.random.Generator, share: float) -> World:
    """Some settings answer next to nothing."""
    settings, effects = _effects(rng, LEVELS)
    whole = rng.random(len(effects)) >= rng.uniform(0.1, 0.5)
    order = np.flatnonzero(whole)[np.argsort(effects[whole], kind="stable")]
    baseline = int(order[round(rng.uniform(0.3, 0.9) * (len(order) - 1))])
    return _world(rng, settings, np.where(whole, effects, BROKEN), baseline, QUESTIONS, share)


LATER: Mapping[str, Callable[[np.random.Generator, float], World]] = {
    "tuned-baseline": tuned_baseline,
    "few-cells": few_cells,
    "broken-mixed": broken_mixed,
}


def later_world(name: str, seed: int, share: float) -> World:
    """The world of a kind of `LATER` with `seed`: `share` of its table may be asked for."""
    return LATER[name](np.random.default_rng([list(LATER).index(name), seed, 32]), share)
