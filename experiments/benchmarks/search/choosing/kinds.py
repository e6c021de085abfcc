"""Eight kinds of grids that no search was tuned on: 48 settings of four columns on questions with chances.

A kind draws a new surface for every seed. Each setting answers each question correctly with a chance that
depends on the setting, the question and both; a score is 1 with that chance, else 0. The true mean of a
setting is its mean chance over `FRESH` further questions. Ranges are uniform unless they say otherwise:

| kind | what is drawn |
| --- | --- |
| heavy-tails | effects of values: Student's t with 1.5 to 3 degrees of freedom, scale .1 to .4 |
| third-order | effects of triples of values: deviation .4 to 1; of single values: 0 to .1 |
| clusters | 3 to 6 clusters of questions; each value fails on each with probability .03 to .12 |
| needle | one setting is .8 to 2 better; all others differ by a deviation of .02 to .1 |
| rare-success | the mean latent effect is -4.5 to -3: few questions are answered; effects .2 to .5 |
| dev-unlike-test | effects on dev and test correlate by .4 to .9; deviation of values .2 to .5 |
| ties | one or two columns matter, with two levels .3 to 1 apart; all else is equal |
| smooth | columns are whole numbers; a quadratic hill at a random point, .5 to 2 high, with noise 0 to .1 |

Common to all: the ease of a question has a deviation of .5 to 2.5, what a setting adds on a single question
.2 to .8, the mean latent effect is -1.5 to 1 (of rare success see above), and the baseline is at the 30th to
90th percentile of the true means. Latent effects are in logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from experiments.benchmarks.search.choosing.worlds import Array, World

LEVELS = (4, 3, 2, 2)
SMOOTH = (6, 4, 2)
FRESH = 4000
"""Questions over which the true means are taken."""


@dataclass(frozen=True)
class Surface:
    """The effects of settings in logits: on dev, on test, and by cluster of questions.

    `fails`, shape (settings, clusters), says which settings never succeed on which cluster.
    """

    settings: list[dict[str, Any]]
    dev: Array
    test: Array
    fails: NDArray[np.bool_]


def _grid(levels: tuple[int, ...], *, numbers: bool = False) -> tuple[NDArray[np.int_], list[dict[str, Any]]]:
    axes = np.meshgrid(*[np.arange(level) for level in levels], indexing="ij")
    codes = np.stack(axes, -1).reshape(-1, len(levels))
    settings = [
        {f"column_{i}": int(v) if numbers else f"value_{v}" for i, v in enumerate(row)} for row in codes
    ]
    return codes, settings


def _values(rng: np.random.Generator, codes: NDArray[np.int_], scale: float) -> Array:
    """Normal effects of single values."""
    total: Array = np.zeros(len(codes))
    for column in codes.T:
        total += rng.normal(0, scale, int(column.max()) + 1)[column]
    return total


def _surface(
    settings: list[dict[str, Any]],
    dev: Array,
    test: Array | None = None,
    fails: NDArray[np.bool_] | None = None,
) -> Surface:
    none = np.zeros((len(dev), 1), dtype=bool)
    return Surface(settings, dev, dev if test is None else test, none if fails is None else fails)


def heavy_tails(rng: np.random.Generator) -> Surface:
    """A few values are much better or worse than the others."""
    codes, settings = _grid(LEVELS)
    freedom, scale = rng.uniform(1.5, 3), rng.uniform(0.1, 0.4)
    effects: Array = np.zeros(len(codes))
    for column in codes.T:
        effects += scale * rng.standard_t(freedom, int(column.max()) + 1)[column]
    return _surface(settings, effects)


def third_order(rng: np.random.Generator) -> Surface:
    """Only triples of values matter."""
    codes, settings = _grid(LEVELS)
    scale = rng.uniform(0.4, 1)
    effects = _values(rng, codes, rng.uniform(0, 0.1))
    for triple in combinations(range(len(LEVELS)), 3):
        table = rng.normal(0, scale / 2, [LEVELS[column] for column in triple])
        effects += table[tuple(codes[:, column] for column in triple)]
    return _surface(settings, effects)


def clusters(rng: np.random.Generator) -> Surface:
    """Values fail on whole clusters of questions."""
    codes, settings = _grid(LEVELS)
    n, share = int(rng.integers(3, 7)), rng.uniform(0.03, 0.12)
    fails = np.zeros((len(codes), n), dtype=bool)
    for column in codes.T:
        fails |= (rng.random((int(column.max()) + 1, n)) < share)[column]
    return _surface(settings, _values(rng, codes, rng.uniform(0.1, 0.3)), fails=fails)


def needle(rng: np.random.Generator) -> Surface:
    """One setting stands out, and nothing points at it."""
    codes, settings = _grid(LEVELS)
    effects = rng.normal(0, rng.uniform(0.02, 0.1), len(codes))
    effects[rng.integers(len(codes))] += rng.uniform(0.8, 2)
    return _surface(settings, effects)


def rare_success(rng: np.random.Generator) -> Surface:
    """Most questions are answered by no setting."""
    codes, settings = _grid(LEVELS)
    return _surface(settings, _values(rng, codes, rng.uniform(0.2, 0.5)))


def dev_unlike_test(rng: np.random.Generator) -> Surface:
    """What helps on dev helps in part on test."""
    codes, settings = _grid(LEVELS)
    scale, rho = rng.uniform(0.2, 0.5), rng.uniform(0.4, 0.9)
    dev, other = _values(rng, codes, scale), _values(rng, codes, scale)
    return _surface(settings, dev, rho * dev + np.sqrt(1 - rho**2) * other)


def ties(rng: np.random.Generator) -> Surface:
    """Many settings are exactly equal."""
    codes, settings = _grid(LEVELS)
    effects: Array = np.zeros(len(codes))
    for column in rng.permutation(len(LEVELS))[: int(rng.integers(1, 3))]:
        levels = rng.integers(0, 2, LEVELS[column])
        levels[rng.integers(len(levels))] = 1
        effects += rng.uniform(0.3, 1) * levels[codes[:, column]]
    return _surface(settings, effects)


def smooth(rng: np.random.Generator) -> Surface:
    """A hill over whole numbers."""
    codes, settings = _grid(SMOOTH, numbers=True)
    at = codes / (np.array(SMOOTH) - 1)
    weights = rng.dirichlet(np.ones(len(SMOOTH)))
    hill = -(weights * (at - rng.random(len(SMOOTH))) ** 2).sum(1)
    effects = rng.uniform(0.5, 2) * (hill - hill.min()) / max(float(np.ptp(hill)), 1e-9)
    return _surface(settings, effects + rng.normal(0, rng.uniform(0, 0.1), len(codes)))


KINDS: Mapping[str, Callable[[np.random.Generator], Surface]] = {
    "heavy-tails": heavy_tails,
    "third-order": third_order,
    "clusters": clusters,
    "needle": needle,
    "rare-success": rare_success,
    "dev-unlike-test": dev_unlike_test,
    "ties": ties,
    "smooth": smooth,
}


def kind_world(name: str, seed: int, share: float, questions: int = 60) -> World:
    """The world of a kind with `seed`: `share` of its table may be asked for."""
    rng = np.random.default_rng([list(KINDS).index(name), seed, 29])
    surface = KINDS[name](rng)
    ease, own = rng.uniform(0.5, 2.5), rng.uniform(0.2, 0.8)
    centre = rng.uniform(-4.5, -3) if name == "rare-success" else rng.uniform(-1.5, 1)
    settings = len(surface.settings)

    def chances(effects: Array, n: int) -> Array:
        cluster = rng.integers(0, surface.fails.shape[1], n)
        latent = centre + (effects - effects.mean())[:, None] + rng.normal(0, ease, n)
        chance: Array = expit(latent + rng.normal(0, own, (settings, n)))
        return np.where(surface.fails[:, cluster], 0.0, chance)

    dev = (rng.random((settings, questions)) < chances(surface.dev, questions)).astype(float)
    true: Array = chances(surface.test, FRESH).mean(1)
    order = np.argsort(true, kind="stable")
    baseline = int(order[round(rng.uniform(0.3, 0.9) * (settings - 1))])
    return World(surface.settings, baseline, dev, true, int(share * dev.size))
