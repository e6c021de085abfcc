"""A model of the scores of settings on questions: which setting is how good, and how sure that is.

    score[s, q] = level + setting[s] + question[q] + residual[s, q]

Questions are exchangeable and differ in difficulty (random effects). So trials that answered different
questions compare: what a question adds is estimated from all trials that answered it. Settings resemble each
other as far as they share values: a setting's effect is a sum of effects of single values, effects of pairs
of values, and one of its own (random effects, too). What is known of a value from one setting is thus known
in part of all that share it.

The variances come from the scores: the marginal likelihood is evaluated on a grid of variance ratios and of
shares of the three kinds of effects, and averaged over it. Effects of single settings may have heavy tails
(Student's t with 4 degrees of freedom, by reweighting), so that a few broken settings do not widen the
distribution of the others.

The posterior is exact for normal scores. Scores of questions are far from normal, but only sums over
questions enter; `experiments/benchmarks/search/choosing` measures how far expectations are from the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHARES = ((0.9, 0.05, 0.05), (0.6, 0.3, 0.1), (0.3, 0.5, 0.2), (0.3, 0.2, 0.5), (0.05, 0.05, 0.9))
"""Shares of the variance between settings: of single values, of pairs of values, of each setting alone."""

RATIOS = tuple(np.geomspace(0.0005, 5, 17))
"""Variances between settings, relative to the residual variance."""

DIFFICULTIES = (0.3, 1.0, 3.0)
"""Residual variances, relative to the variance between questions."""

MOST = 200
"""The most settings from which variances are estimated: the time grows with their number to the third."""

_PRIOR_RATIO, _PRIOR_SPREAD = 0.05, 2.0
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 0.1, 0.5
_JITTER = 1e-9
_FREEDOM = 4.0


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior of all settings' mean scores.

    `mean` has shape (settings,), `covariance` (settings, settings). `residual` is the variance of one answer
    beyond setting and question. The level, which all settings share, is in `mean` and not in `covariance`.
    """

    mean: Array
    covariance: Array
    residual: float

    def worse_than(self, reference: int, margin: float) -> Array:
        """The probability that each setting's mean is more than `margin` below that of `reference`."""
        from scipy.special import ndtr

        cov = self.covariance
        variance = np.diag(cov) + cov[reference, reference] - 2 * cov[:, reference]
        gap = self.mean[reference] - margin - self.mean
        chance: Array = ndtr(gap / np.sqrt(np.maximum(variance, 1e-12)))
        chance[reference] = 0.0
        return chance


@dataclass(frozen=True, slots=True)
class Variances:
    """What the likelihood is evaluated for: `shares` of the kinds of effects, `ratio` of the variance between
    settings to the residual variance `residual`, `difficulty` of that to the variance between questions.
    """

    shares: tuple[float, float, float]
    ratio: float
    difficulty: float
    residual: float


class ScoreModel:
    """The model of `settings`, each a mapping from the same columns to values.

    Columns with one value are ignored. Numbers are alike as far as they are close by rank, other values only
    if they are equal.
    """

    def __init__(self, settings: Sequence[Mapping[str, Any]]) -> None:
        self._settings = tuple(settings)
        self._kinds = _similarities(settings)
        self._scale: Array = np.ones(len(settings))
        self._similarity: Array = np.eye(len(settings))
        self._root: Array = np.eye(len(settings))
        self.variances = Variances(SHARES[1], _PRIOR_RATIO, 1.0, _PRIOR_VARIANCE)
        self.fix(self.variances)

    def fix(self, variances: Variances) -> None:
        """Uses these variances from now on."""
        self.variances = variances
        self._similarity = self._mix(variances.shares)
        self._root = _root(self._similarity)

    def fit(self, scores: Array, *, tails: bool = True) -> Posterior:
        """Estimates the variances from `scores`, shape (settings, questions), NaN where nothing was answered.

        Returns the posterior averaged over all variances, each with its likelihood; `posterior` uses their
        mean. With `tails`, settings far from what their values predict get a wider distribution of their own.
        With more than `MOST` settings the variances are those of a sample of them, and the posterior uses
        their mean.
        """
        self._scale = np.ones(len(scores))
        if len(scores) > MOST:
            answered = np.flatnonzero(~np.isnan(scores).all(axis=1))
            sample = answered[np.linspace(0, len(answered) - 1, min(MOST, len(answered))).astype(int)]
            part = ScoreModel([self._settings[index] for index in sample])
            part.fit(scores[sample], tails=False)
            self.fix(part.variances)
            return self.posterior(scores)
        seen = _Seen.of(scores)
        average = self._average(seen)
        if tails:
            self._scale = self._own_scales(seen)
            average = self._average(seen)
        return average

    def posterior(self, scores: Array) -> Posterior:
        """The posterior given `scores`, with the variances that were fixed or fitted last."""
        mean, cov, level = self._effects(_Seen.of(scores))
        return Posterior(level + mean, cov, self.variances.residual)

    def _mix(self, shares: Sequence[float]) -> Array:
        single, pair = self._kinds
        mixed: Array = shares[0] * single + shares[1] * pair + np.diag(shares[2] * self._scale)
        return mixed

    def _effects(self, seen: _Seen) -> tuple[Array, Array, float]:
        """Mean and covariance of the settings' effects, and the level."""
        reduced = seen.without_questions(self.variances.difficulty)
        precision = (
            np.eye(len(self._root)) / self.variances.ratio + self._root.T @ reduced.weights @ self._root
        )
        half = np.linalg.solve(np.linalg.cholesky(precision), self._root.T)
        effects = half.T @ (half @ reduced.sums)
        return effects, self.variances.residual * half.T @ half, reduced.level(effects)

    def _average(self, seen: _Seen) -> Posterior:
        """The posterior averaged over the grid of variances, whose means are fixed."""
        ratios = np.array(RATIOS)
        log_prior = -0.5 * ((np.log(ratios) - np.log(_PRIOR_RATIO)) / _PRIOR_SPREAD) ** 2
        roots = [_root(self._mix(shares)) for shares in SHARES]
        points = [
            _Point.of(seen.without_questions(difficulty), root, ratios, seen.count)
            for difficulty in DIFFICULTIES
            for root in roots
        ]
        likelihoods = np.array([point.likelihood for point in points]) + log_prior
        weights = np.exp(likelihoods - likelihoods.max())
        weights /= weights.sum()
        shares = weights.sum(1).reshape(len(DIFFICULTIES), len(SHARES)).sum(0) @ np.array(SHARES)
        difficulties = np.log(np.repeat(DIFFICULTIES, len(SHARES)))
        residual = float((weights * np.array([point.residual for point in points])).sum())
        self.fix(
            Variances(
                (float(shares[0]), float(shares[1]), float(shares[2])),
                float(np.exp(weights.sum(0) @ np.log(ratios))),
                float(np.exp(weights.sum(1) @ difficulties)),
                residual,
            )
        )
        means = np.array([point.means(weight) for point, weight in zip(points, weights, strict=True)])
        shape = (len(self._root),) * 2
        cov: Array = np.zeros(shape)
        total = means.sum(0)
        for point, weight, mean in zip(points, weights, means, strict=True):
            share = float(weight.sum())
            if share > 1e-4:
                gap = mean / share - total
                cov += point.covariance(weight) + share * np.outer(gap, gap)
        return Posterior(total, cov, residual)

    def _own_scales(self, seen: _Seen) -> Array:
        """Factors for the variances of the settings' own effects: an EM step for Student's t."""
        own, between = self.variances.shares[2], self.variances.ratio * self.variances.residual
        effects, cov, _ = self._effects(seen)
        inverse = np.linalg.inv(self._similarity + _JITTER * np.eye(len(effects)))
        mean = own * (inverse @ effects)
        unexplained = own * between * (1 - own * np.diag(inverse))
        unexplained += own**2 * np.einsum("ij,jk,ik->i", inverse, cov, inverse)
        squared = (mean**2 + np.maximum(unexplained, 0)) / (own * between)
        return np.clip((_FREEDOM + squared) / (_FREEDOM + 1), 0.8, 20.0)


@dataclass(frozen=True, slots=True)
class _Point:
    """The posteriors at one difficulty and one mix of shares, for all ratios.

    `likelihood` and `residual` have shape (ratios,). `basis` maps coordinates in which effects are
    independent to settings; `sums` and `values` are what the scores say of each coordinate.
    """

    reduced: _Reduced
    ratios: Array
    likelihood: Array
    residual: Array
    basis: Array
    sums: Array
    values: Array

    @classmethod
    def of(cls, reduced: _Reduced, root: Array, ratios: Array, count: float) -> _Point:
        values, vectors = np.linalg.eigh(root.T @ reduced.weights @ root)
        values = np.maximum(values, 0)
        basis = root @ vectors
        sums = basis.T @ reduced.sums
        column = ratios[:, None]
        explained = (column * sums**2 / (1 + column * values)).sum(1)
        rest = np.maximum(reduced.squares - explained, 1e-6 * count)
        residual = (rest + _PRIOR_VARIANCE * _PRIOR_WEIGHT) / (count - 1 + _PRIOR_WEIGHT)
        log_det = reduced.log_det + np.log1p(column * values).sum(1)
        likelihood = -0.5 * ((count - 1) * np.log(residual) + log_det)
        return cls(reduced, ratios, likelihood, residual, basis, sums, values)

    def _shrinkage(self, weights: Array) -> Array:
        """The variance of each coordinate relative to the residual variance, times its weight, added up."""
        column = self.ratios[:, None]
        shrunk: Array = weights @ (column / (1 + column * self.values))
        return shrunk

    def means(self, weights: Array) -> Array:
        """The mean scores of all settings, times the sum of the weights."""
        effects: Array = self.basis @ (self._shrinkage(weights) * self.sums)
        total = float(weights.sum())
        return total * self.reduced.level(effects / total) + effects if total else effects

    def covariance(self, weights: Array) -> Array:
        """The covariance of the settings' effects, times the sum of the weights."""
        cov: Array = (self.basis * self._shrinkage(weights * self.residual)) @ self.basis.T
        return cov


@dataclass(frozen=True, slots=True)
class _Reduced:
    """The normal equations of the settings' effects after questions and level are eliminated."""

    weights: Array
    sums: Array
    squares: float
    log_det: float
    pull: Array
    total: float
    mass: float

    def level(self, effects: Array) -> float:
        return float((self.total - self.pull @ effects) / self.mass)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The answered cells, shape (settings, questions): `mask` is 0 or 1, `values` 0 where there is none."""

    mask: Array
    values: Array

    @classmethod
    def of(cls, scores: Array) -> _Seen:
        mask = ~np.isnan(scores)
        if not mask.any():
            raise ValueError("A model of scores needs at least one score, found none.")
        used = mask.any(axis=0)
        return cls(mask[:, used].astype(float), np.where(mask, scores, 0.0)[:, used])

    @property
    def count(self) -> float:
        return float(self.mask.sum())

    def without_questions(self, difficulty: float) -> _Reduced:
        answers, sums = self.mask.sum(0), self.values.sum(0)
        share = 1 / (answers + difficulty)
        weights = np.diag(self.mask.sum(1)) - (self.mask * share) @ self.mask.T
        pull = self.mask @ (difficulty * share)
        mass = float((difficulty * answers * share).sum())
        own = self.values.sum(1) - self.mask @ (sums * share)
        total = float((sums * difficulty * share).sum())
        squares = float((self.values**2).sum() - (sums**2 * share).sum() - total**2 / mass)
        return _Reduced(
            weights - np.outer(pull, pull) / mass,
            own - pull * total / mass,
            squares,
            float(np.log1p(answers / difficulty).sum() + np.log(mass)),
            pull,
            total,
            mass,
        )


def _root(similarity: Array) -> Array:
    root: Array = np.asarray(np.linalg.cholesky(similarity + _JITTER * np.eye(len(similarity))), np.float64)
    return root


def _similarities(settings: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
    """How alike settings are by single values and by pairs of values, 0..1, each with a diagonal of ones."""
    columns = [_alike([setting.get(name) for setting in settings]) for name in _varying(settings)]
    if not columns:
        return np.ones((len(settings),) * 2), np.ones((len(settings),) * 2)
    single: Array = np.asarray(np.mean(columns, axis=0), dtype=np.float64)
    pairs = [first * second for i, first in enumerate(columns) for second in columns[:i]]
    pair: Array = np.asarray(np.mean(pairs, axis=0), dtype=np.float64) if pairs else single
    return single, pair


def _varying(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    names = sorted({name for setting in settings for name in setting})
    return [name for name in names if len({repr(setting.get(name)) for setting in settings}) > 1]


def _alike(values: Sequence[Any]) -> Array:
    labels = sorted({repr(value) for value in values})
    codes = np.array([labels.index(repr(value)) for value in values])
    equal: Array = (codes[:, None] == codes[None]).astype(float)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return equal
    levels = sorted(set(values))
    if len(levels) < 3:
        return equal
    ranks = np.array([levels.index(value) for value in values]) / (len(levels) - 1)
    near: Array = 1 - np.abs(ranks[:, None] - ranks[None])
    return (equal + near) / 2
