"""Generated grids: tables of scores whose true means are known, from parameters.

A cell (setting, question) has a latent quality: the setting's effect (of single values, of pairs of values,
of its own), the question's ease, effects of values on single questions, and noise. The score is a step
function of it: a step for exact match, several for graded scores. So many scores are equal, many questions
are answered by all settings or by none, and means are skewed, as in real grids. The mean over all questions
that could be asked is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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
