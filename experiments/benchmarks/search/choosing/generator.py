"""Generated grids: tables of scores whose true means are known, from parameters that can be fitted.

A cell (setting, question) has a latent quality: the setting's effect (of single values, of pairs of values,
of its own), the question's ease, effects of values on single questions, and noise. The score is a step
function of it: a step for exact match, several for graded scores. So many scores are equal, many questions
are answered by all settings or by none, and means are skewed, as in real grids. The mean over all questions
that could be asked is known in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

Array = NDArray[np.float64]

EXACT = ((0.0, 1.0),)
GRADED = ((0.0, 0.4), (0.5, 0.27), (1.0, 0.33))
BROKEN = -3.0
"""The effect of a setting that is broken."""


@dataclass(frozen=True)
class Parameters:
    """A kind of grid. All deviations are standard deviations of latent effects, relative to the noise's, 1.

    `levels` are the numbers of values of each column and `settings` how many of their combinations there are.
    `single`, `pair` and `own` are the effects of values, of pairs of values and of each setting; `ease` is
    the effect of a question, `local` that of a value on a single question. `centre` is the mean effect.
    `steps` are (threshold, credit) pairs; credits add up to 1. `broken` is the share of broken settings.
    `baseline` is the baseline's rank among the settings, 0 the worst, 1 the best. `seed` draws the effects.
    """

    name: str
    levels: tuple[int, ...]
    settings: int
    single: float
    pair: float
    own: float
    ease: float
    local: float
    centre: float
    steps: tuple[tuple[float, float], ...] = EXACT
    broken: float = 0.0
    baseline: float = 0.5
    seed: int = 0


class GeneratedGrid:
    """One draw of the settings' effects from `parameters`.

    `columns` has shape (settings, columns) and holds values by number; `true` has the true mean scores, shape
    (settings,); `baseline` is the number of a setting.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters, self.name = parameters, parameters.name
        rng = np.random.default_rng([parameters.seed, 18])
        axes = np.meshgrid(*[np.arange(level) for level in parameters.levels], indexing="ij")
        columns = np.stack(axes, -1).reshape(-1, len(parameters.levels))
        if len(columns) > parameters.settings:
            columns = columns[np.sort(rng.choice(len(columns), parameters.settings, replace=False))]
        self.columns = columns
        effects = rng.normal(0, parameters.own, len(columns))
        for column, levels in enumerate(parameters.levels):
            effects += rng.normal(0, parameters.single, levels)[columns[:, column]]
            for other in range(column):
                shape = (levels, parameters.levels[other])
                effects += rng.normal(0, parameters.pair, shape)[columns[:, column], columns[:, other]]
        effects[rng.random(len(columns)) < parameters.broken] += BROKEN
        self.effects = effects - effects.mean() + parameters.centre
        spread = np.sqrt(1 + parameters.ease**2 + len(parameters.levels) * parameters.local**2)
        self.true: Array = sum(
            credit * ndtr((self.effects - threshold) / spread) for threshold, credit in parameters.steps
        )
        order = np.argsort(self.true, kind="stable")
        self.baseline = int(order[round(parameters.baseline * (len(order) - 1))])

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """The settings as mappings from column to value."""
        return [{f"column_{i}": f"value_{value}" for i, value in enumerate(row)} for row in self.columns]

    def draw(self, questions: int, rng: np.random.Generator) -> Array:
        """Scores of all settings on fresh questions, shape (settings, questions)."""
        p, n = self.parameters, len(self.columns)
        latent = self.effects[:, None] + rng.normal(0, p.ease, questions) + rng.normal(0, 1, (n, questions))
        for column, levels in enumerate(p.levels if p.local else ()):
            latent += rng.normal(0, p.local, (levels, questions))[self.columns[:, column]]
        scores: Array = sum(credit * (latent > threshold) for threshold, credit in p.steps)
        return scores


def fit(scores: Array, settings: Sequence[Mapping[str, Any]], *, name: str, baseline: int = 0) -> Parameters:
    """Parameters under which grids look like this one, by the method of moments.

    `scores` has shape (settings, questions) without gaps, each score 0 to 1. Thresholds come from the shares
    of scores that are 0, between and 1; the spread of questions and of values on single questions from how
    often two settings both score, by the number of values that they share; effects of settings from a
    regression of their probits on values and pairs of values, less the error of the means.
    Raises ValueError for scores that are missing or all equal.
    """
    if np.isnan(scores).any() or scores.min() == scores.max():
        raise ValueError("Parameters are fitted to a full grid with more than one score.")
    names = [n for n in sorted({n for s in settings for n in s}) if len({repr(s[n]) for s in settings}) > 1]
    labels = [sorted({repr(s[n]) for s in settings}) for n in names]
    codes = np.array(
        [[label.index(repr(s[n])) for n, label in zip(names, labels, strict=True)] for s in settings]
    )
    levels = tuple(len(label) for label in labels)
    hits = (scores > 0).astype(float)
    probits = ndtri(np.clip(hits.mean(1), 0.5 / scores.shape[1], 1 - 0.5 / scores.shape[1]))
    common, by_value = _correlations(hits, codes)
    noise = max(0.03, 1 - common - by_value * len(levels))
    scale = 1 / np.sqrt(noise)
    effects = probits * scale
    broken = effects < np.median(effects) - max(2.0, 4 * np.median(np.abs(effects - np.median(effects))))
    single, pair, own = _deviations(effects[~broken], codes[~broken], hits[~broken], scale)
    order = np.argsort(np.argsort(scores.mean(1), kind="stable"), kind="stable")
    return Parameters(
        name=name,
        levels=levels,
        settings=len(settings),
        single=single,
        pair=pair,
        own=own,
        ease=float(np.sqrt(common / noise)),
        local=float(np.sqrt(by_value / noise)),
        centre=float(effects.mean()),
        steps=_steps(scores, effects, np.sqrt(1 / noise)),
        broken=float(broken.mean()),
        baseline=float(order[baseline] / max(1, len(order) - 1)),
    )


def _correlations(hits: Array, codes: NDArray[np.int_]) -> tuple[float, float]:
    """The latent correlation of two settings without a common value, and what a common value adds."""
    n, questions = hits.shape
    pairs = [(i, j) for i in range(n) for j in range(i)]
    rng = np.random.default_rng(0)
    if len(pairs) > 300:
        pairs = [pairs[k] for k in rng.choice(len(pairs), 300, replace=False)]
    rates = np.clip(hits.mean(1), 0.5 / questions, 1 - 0.5 / questions)
    shared, joint, first, second = [], [], [], []
    for i, j in pairs:
        if 0.02 < rates[i] < 0.98 and 0.02 < rates[j] < 0.98:
            shared.append(float((codes[i] == codes[j]).sum()))
            joint.append(float((hits[i] * hits[j]).mean()))
            first.append(float(ndtri(rates[i])))
            second.append(float(ndtri(rates[j])))
    if not joint:
        return 0.5, 0.0
    counts = np.array(shared)
    by_count: dict[float, tuple[float, int]] = {}
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        target = float(np.mean([joint[k] for k in chosen]))
        heights = [(first[k], second[k]) for k in chosen[:40]]
        level = float(np.mean([joint[k] for k in chosen[:40]]))
        by_count[float(count)] = (_tetrachoric(heights, level or target), len(chosen))
    x = np.array(list(by_count))
    y = np.array([value for value, _ in by_count.values()])
    w = np.array([weight for _, weight in by_count.values()], dtype=float)
    slope = 0.0
    if len(x) > 1:
        centre = (w * x).sum() / w.sum()
        slope = float((w * (x - centre) * y).sum() / (w * (x - centre) ** 2).sum())
    slope = min(max(slope, 0.0), 0.2)
    common = float(((w * (y - slope * x)).sum()) / w.sum())
    return min(max(common, 0.0), 0.95), slope


def _tetrachoric(heights: Sequence[tuple[float, float]], joint: float) -> float:
    """The correlation at which two normals both exceed their thresholds as often as observed."""

    def excess(rho: float) -> float:
        cov = [[1.0, rho], [rho, 1.0]]
        return float(np.mean([multivariate_normal.cdf(pair, cov=cov) for pair in heights])) - joint

    low, high = -0.5, 0.99
    if excess(low) > 0:
        return low
    return high if excess(high) < 0 else float(brentq(excess, low, high, xtol=1e-3))


def _deviations(
    effects: Array, codes: NDArray[np.int_], hits: Array, scale: float
) -> tuple[float, float, float]:
    """Standard deviations of the effects of values, of pairs of values and of settings alone."""
    columns = codes.shape[1]
    density = np.exp(-((effects / scale) ** 2) / 2) / np.sqrt(2 * np.pi)
    rates = hits.mean(1)
    centred = hits - hits.mean(0)
    error = float(np.mean((centred.var(1) / hits.shape[1]) / np.maximum(density, 0.05) ** 2)) * scale**2
    total = max(float(effects.var(ddof=1)) - error, 1e-4) if rates.size > 1 else 1e-4
    singles = _share(effects, [_dummies(codes[:, c]) for c in range(columns)])
    products = [codes[:, a] * 1000 + codes[:, b] for a in range(columns) for b in range(a)]
    both = _share(effects, [_dummies(codes[:, c]) for c in range(columns)] + [_dummies(p) for p in products])
    single, pair = singles * total, max(0.0, both - singles) * total
    own = max(0.0, total - single - pair)
    return (
        float(np.sqrt(single / max(1, columns))),
        float(np.sqrt(pair / max(1, columns * (columns - 1) / 2))),
        float(np.sqrt(own)),
    )


def _dummies(codes: NDArray[np.int_]) -> Array:
    values = np.unique(codes)
    dummies: Array = (codes[:, None] == values[None]).astype(float)
    return dummies


def _share(effects: Array, blocks: Sequence[Array]) -> float:
    """The share of the variance that a linear model explains, adjusted for its degrees of freedom."""
    design = np.hstack([np.ones((len(effects), 1)), *blocks]) if blocks else np.ones((len(effects), 1))
    rank = int(np.linalg.matrix_rank(design))
    if rank >= len(effects) - 1:
        return 1.0 if len(blocks) > design.shape[1] else 0.8
    rest = effects - design @ np.linalg.lstsq(design, effects, rcond=None)[0]
    adjusted = 1 - (rest @ rest / (len(effects) - rank)) / effects.var(ddof=1)
    return float(min(max(adjusted, 0.0), 1.0))


def _steps(scores: Array, effects: Array, spread: float) -> tuple[tuple[float, float], ...]:
    """Thresholds and credits: where scores begin, and where they are full."""
    partial = scores[(scores > 0) & (scores < 1)]
    if partial.size < 0.01 * scores.size:
        return EXACT
    credit = float(partial.mean())
    full = np.clip((scores >= 1).mean(1), 0.5 / scores.shape[1], 1 - 0.5 / scores.shape[1])
    threshold = float(np.mean(effects - ndtri(full) * spread))
    return ((0.0, credit), (max(0.05, threshold), 1 - credit))


SMALL, LARGE = (4, 3, 2, 2), (5, 5, 5, 4, 2)

_PROFILES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("easy", {"ease": 3.0, "centre": 0.5}),
    ("hard", {"ease": 3.0, "centre": -3.0, "steps": GRADED}),
    ("tough", {"ease": 4.0, "centre": -6.0}),
    ("noisy", {"ease": 1.0, "centre": -0.3, "steps": GRADED}),
    ("middle", {"ease": 2.5, "centre": -1.0, "steps": GRADED}),
)
_STRUCTURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("values", {"single": 0.45, "pair": 0.2, "own": 0.1, "local": 0.4}),
    ("pairs", {"single": 0.2, "pair": 0.45, "own": 0.1, "local": 0.4}),
    ("own", {"single": 0.15, "pair": 0.1, "own": 0.5, "local": 0.4}),
    ("flat", {"single": 0.12, "pair": 0.08, "own": 0.05, "local": 0.4, "baseline": 0.7}),
)


def generated() -> list[Parameters]:
    """Twenty kinds of grids of 48 settings, and four others: few settings, many, broken, good baseline.

    Every profile of questions meets every structure of settings. The spread of questions follows what stored
    predictions show: of four readers of Natural Questions, 67% of the questions are answered alike.
    """
    kinds = [
        Parameters(name=f"{profile}-{structure}", levels=SMALL, settings=48, **a, **b)
        for profile, a in _PROFILES
        for structure, b in _STRUCTURES
    ]
    middle = next(kind for kind in kinds if kind.name == "middle-values")
    kinds += [
        replace(middle, name="few", levels=(4, 4), settings=16),
        replace(middle, name="broken", broken=0.25, baseline=0.85),
        replace(middle, name="good-baseline", baseline=0.9),
        replace(middle, name="many", levels=LARGE, settings=1000, single=0.3, pair=0.15),
    ]
    return [replace(kind, seed=number) for number, kind in enumerate(kinds)]
