"""How much each demonstration helps other questions, estimated from the trials that showed it.

A demonstration enters a pool because its own question was answered well once. This does not show that it
helps other questions. Trials do: they show different sets on the same dev questions. A trial's gain is its
mean score minus that of all trials on the same questions. It is modelled as

    gain = sum of the effects of the demonstrations shown + effect of the other settings + noise

All effects are normal with mean 0, so those with little evidence stay near 0. The variance of the
demonstrations' effects is the most likely one of a grid, the noise is that of the questions. A set is drawn
by Thompson sampling: the effects are drawn from their posterior and the greatest come first. Nothing is sent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np

from ragc.metrics.base import Objective
from ragc.optimizers.candidates.trial import TrialResult

SPREADS = (0.0004, 0.0016, 0.0036, 0.0064, 0.01, 0.0225, 0.04)
"""Variances of the effect of a demonstration that are compared; the square of .02 to .2 of a score."""

PRIOR = 0.01
"""The variance of the effect of a demonstration before any trial."""

SETTINGS = 0.04
"""The variance of the effect of other settings."""


@dataclass(frozen=True, slots=True)
class TrialDemos:
    """What a trial showed: `keys` of demonstrations, and a digest of its other `settings`."""

    trial: TrialResult
    keys: frozenset[str]
    settings: str


@dataclass(frozen=True, slots=True)
class Effects:
    """The posterior of the effects of the demonstrations `keys`: means, and a root of their covariance."""

    keys: tuple[str, ...]
    means: np.ndarray
    root: np.ndarray

    def mean(self) -> dict[str, float]:
        """Returns the expected effect of each demonstration, on the scale of the score."""
        return {key: round(float(value), 9) for key, value in zip(self.keys, self.means, strict=True)}

    def draw(self, rng: random.Random) -> dict[str, float]:
        """Returns one draw of all effects from the posterior."""
        noise = np.array([rng.gauss(0, 1) for _ in self.keys])
        drawn = self.means + self.root @ noise
        return {key: round(float(value), 9) for key, value in zip(self.keys, drawn, strict=True)}


def estimate_effects(shown: Sequence[TrialDemos], keys: Sequence[str], objective: Objective) -> Effects:
    """Returns the effects of the demonstrations `keys` on `objective`, from trials that `shown` describes.

    Without trials that tell them apart, all are equal in the mean.
    """
    if not shown:
        return Effects(tuple(keys), np.zeros(len(keys)), np.eye(len(keys)) * PRIOR**0.5)
    gains, noise = _gains([entry.trial for entry in shown], objective)
    every = tuple(sorted({*keys, *(key for entry in shown for key in entry.keys)}))
    has = np.array([[float(key in entry.keys) for key in every] for entry in shown])
    kinds = sorted({entry.settings for entry in shown})
    rest = np.array(
        [[*(float(k == entry.settings) for k in kinds), float(bool(entry.keys))] for entry in shown]
    )
    base = np.diag(noise) + SETTINGS * rest @ rest.T
    spread = max(
        SPREADS, key=lambda value: (round(_likelihood(value * has @ has.T + base, gains), 9), -value)
    )
    places = [every.index(key) for key in keys]
    mine = has[:, places]
    weighed = spread * np.linalg.solve(spread * has @ has.T + base, mine).T
    covariance = spread * (np.eye(len(keys)) - weighed @ mine)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors @ np.diag(np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return Effects(tuple(keys), weighed @ gains, root)


def _gains(trials: Sequence[TrialResult], objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Returns the gain of each trial, and the variance of its noise."""
    series = [trial.series(objective) for trial in trials]
    longest = max(map(len, series), default=0)
    level = [fmean(line[at] for line in series if at < len(line)) for at in range(longest)]
    differences = [[score - level[at] for at, score in enumerate(line)] for line in series]
    variances = [variance(line) for line in differences if len(line) > 1]
    noise = max(fmean(variances), 1e-4) if variances else 1.0
    return (
        np.array([fmean(line) if line else 0.0 for line in differences]),
        np.array([noise / max(1, len(line)) for line in differences]),
    )


def _likelihood(covariance: np.ndarray, gains: np.ndarray) -> float:
    """Returns the log likelihood of `gains`, without its constant."""
    _, size = np.linalg.slogdet(covariance)
    return float(-0.5 * (size + gains @ np.linalg.solve(covariance, gains)))


def order_by_help(keys: Mapping[str, Sequence[str]], drawn: Mapping[str, float]) -> dict[str, list[int]]:
    """Returns the places of the demonstrations of each predictor, whose `keys` are given, the most helpful
    first.

    Lists of equal length are ordered alike, by the sum of the effects at each place, so that demonstrations
    of one question stay together.
    """
    lengths = {len(known) for known in keys.values()}
    values = {name: [drawn[key] for key in known] for name, known in keys.items()}
    if len(lengths) == 1:
        total = [sum(column) for column in zip(*values.values(), strict=True)]
        values = dict.fromkeys(values, total)
    return {name: _descending(effects) for name, effects in values.items()}


def _descending(effects: Sequence[float]) -> list[int]:
    return sorted(range(len(effects)), key=lambda at: (-effects[at], at))
