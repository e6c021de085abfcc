"""A model of the scores of settings on questions: how good each setting is, and how certain that is.

    score[s, q] = level + setting[s] + question[q] + residual[s, q]

Questions are exchangeable and differ in difficulty (random effects). So trials that answered different
questions can be compared: the effect of a question is estimated from all trials that answered it. Settings
are similar as far as they share values: a setting's effect is a sum of effects of single values, effects of
pairs of values, and one of its own (random effects, too). Evidence on a value from one setting thus counts in
part for all settings that share it.

The variances come from the scores: the marginal likelihood is evaluated on a grid of variance ratios and of
shares of the three kinds of effects, and averaged over it.

The posterior is exact for normal scores. Scores of questions are far from normal, but only sums over
questions enter; `experiments/benchmarks/search/choosing` measures how far expectations are from the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ragc.optimizers.search.normal_equations import (
    PRIOR_VARIANCE,
    AnsweredCells,
    Array,
    GridPosteriors,
    solve_lower,
)

SHARES = ((0.9, 0.05, 0.05), (0.6, 0.3, 0.1), (0.3, 0.5, 0.2), (0.3, 0.2, 0.5), (0.05, 0.05, 0.9))
"""Shares of the variance between settings: of single values, of pairs of values, of each setting alone."""

RATIOS = tuple(np.geomspace(0.0005, 5, 17))
"""Variances between settings, relative to the residual variance."""

DIFFICULTIES = (0.3, 1.0, 3.0)
"""Residual variances, relative to the variance between questions."""

MAX_EXACT_SETTINGS = 200
"""The most settings from which variances are estimated: the time grows with their number to the third."""

REPETITIONS = 1024
"""Repetitions in which the bias of a choice is measured."""

_PRIOR_RATIO, _PRIOR_SPREAD = 0.05, 2.0
_JITTER = 1e-9
_SEED = 18


@cache
def _threads() -> ThreadpoolController:
    """Returns the thread pools of the matrix libraries: numpy's, and scipy's own, which is loaded first."""
    import_module("scipy.linalg")
    return ThreadpoolController()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limits the matrix library to one thread until exit.

    The matrices are small, so further threads only wait for each other: a search of 60 trials took more than
    twice the processor time on two cores (experiments/LOG.md).
    """
    with _threads().limit(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior of all settings' mean scores.

    `mean` has shape (settings,), `covariance` (settings, settings). `residual` is the variance of one answer
    beyond setting and question. The level, which all settings share, is in `mean` and not in `covariance`.
    """

    mean: Array
    covariance: Array
    residual: float

    def after(self, setting: int, answers: float) -> Posterior:
        """Returns what is known once `setting` gave `answers` more answers, before they are known: less is
        unsure.
        """
        column = self.covariance[:, setting]
        unsure = column[setting] + self.residual / answers
        return replace(self, covariance=self.covariance - np.outer(column, column) / unsure)

    def only(self, settings: Sequence[int]) -> Posterior:
        """Returns the posterior of `settings` alone, in their order."""
        at = np.asarray(settings, dtype=np.intp)
        return replace(self, mean=self.mean[at], covariance=self.covariance[np.ix_(at, at)])

    def worse_than(self, reference: int, margin: float, means: Array | None = None) -> Array:
        """Returns the probability that each setting's mean is more than `margin` below that of `reference`.

        `means`, shape (..., settings), are other posterior means with the same covariance.
        """
        from scipy.special import ndtr

        cov, means = self.covariance, self.mean if means is None else means
        variance = np.diag(cov) + cov[reference, reference] - 2 * cov[:, reference]
        gap = means[..., [reference]] - margin - means
        chance: Array = ndtr(gap / np.sqrt(np.maximum(variance, 1e-12)))
        chance[..., reference] = 0.0
        return chance


@dataclass(frozen=True, slots=True)
class Variances:
    """A point at which the likelihood is evaluated.

    `shares` are those of the kinds of effects, `ratio` is the variance between settings over the residual
    variance `residual`, `difficulty` the residual variance over the variance between questions.
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
        self._similarity: Array = np.eye(len(settings))
        self.variances = Variances(SHARES[1], _PRIOR_RATIO, 1.0, PRIOR_VARIANCE)
        self.fix(self.variances)

    def fix(self, variances: Variances) -> None:
        """Uses these variances from now on."""
        self.variances = variances
        self._similarity = self._mix(variances.shares)

    @_one_thread()
    def fit(self, scores: Array) -> Posterior:
        """Estimates the variances from `scores`, shape (settings, questions), NaN where nothing was answered.

        Returns the posterior averaged over all variances, each with its likelihood; `posterior` uses their
        mean. With more than `MAX_EXACT_SETTINGS` settings the variances are those of a sample of them, and
        the posterior uses their mean.
        """
        if len(scores) > MAX_EXACT_SETTINGS:
            answered = np.flatnonzero(~np.isnan(scores).all(axis=1))
            sample = answered[
                np.linspace(0, len(answered) - 1, min(MAX_EXACT_SETTINGS, len(answered))).astype(int)
            ]
            part = ScoreModel([self._settings[index] for index in sample])
            part._weigh(AnsweredCells.of(scores[sample]))
            self.fix(part.variances)
            return self.posterior(scores)
        points, weights = self._weigh(AnsweredCells.of(scores))
        return Posterior(*points.average(weights), self.variances.residual)

    @_one_thread()
    def posterior(self, scores: Array) -> Posterior:
        """Returns the posterior given `scores`, with the variances that were fixed or fitted last."""
        mean, cov, level = self._effects(AnsweredCells.of(scores))
        return Posterior(level + mean, cov, self.variances.residual)

    @_one_thread()
    def bias_of_choice(self, scores: Array, choose: Callable[[Array], NDArray[np.intp]]) -> float:
        """Returns how far the posterior mean of the setting that is chosen lies above its true mean, on
        average.

        `choose` maps posterior means, shape (repetitions, settings), to the settings chosen. Two things pull
        apart: the choice takes the luckiest (upwards), and the prior draws a setting that truly stands alone
        towards the others (downwards; a prior is right for the mean over settings, not for the best).

        A parametric bootstrap of `REPETITIONS` fresh answers to the same cells, with the variances that were
        fixed or fitted last, tells both. As true effects stand the posterior's, with what the model takes
        away from effects put back once: without, the second part is measured on effects that are drawn
        together already. 0 where all scores are equal.
        """
        seen = AnsweredCells.of(scores)
        if np.nanmin(scores) == np.nanmax(scores):
            return 0.0
        reduced = seen.without_questions(self.variances.difficulty)
        effects, cov, _ = self._effects(seen)
        smoother = cov / self.variances.residual
        weights = reduced.weights()
        true = 2 * effects - smoother @ (weights @ effects)
        strengths, directions = np.linalg.eigh(weights)
        # The symmetric root: eigenvectors of equal strengths are arbitrary and change with the last bits.
        root = (directions * np.sqrt(self.variances.residual * np.maximum(strengths, 0))) @ directions.T
        spread = smoother @ root
        normal = np.random.default_rng(_SEED).normal(size=(REPETITIONS // 2, len(effects)))
        errors = smoother @ (weights @ true) - true + np.vstack([normal, -normal]) @ spread.T
        errors -= (errors @ reduced.pull / reduced.mass)[:, None]
        level = reduced.level(true)
        chosen = choose(level + true + errors)
        return float(errors[np.arange(len(errors)), chosen].mean())

    def _mix(self, shares: Sequence[float]) -> Array:
        single, pair = self._kinds
        mixed: Array = shares[0] * single + shares[1] * pair + shares[2] * np.eye(len(single))
        return mixed

    def _effects(self, seen: AnsweredCells) -> tuple[Array, Array, float]:
        """Returns mean and covariance of the settings' effects, and the level."""
        reduced = seen.without_questions(self.variances.difficulty)
        unit = np.eye(len(self._similarity))
        root = np.asarray(np.linalg.cholesky(self._similarity + _JITTER * unit), np.float64)
        precision = unit / self.variances.ratio + root.T @ reduced.weights() @ root
        half = solve_lower(np.asarray(np.linalg.cholesky(precision), np.float64), root.T)
        effects = half.T @ (half @ reduced.sums)
        return effects, self.variances.residual * half.T @ half, reduced.level(effects)

    def _weigh(self, seen: AnsweredCells) -> tuple[GridPosteriors, Array]:
        """Returns the grid of variances and what each point weighs, shape (points, ratios); fixes their
        means.
        """
        ratios = np.array(RATIOS)
        log_prior = -0.5 * ((np.log(ratios) - np.log(_PRIOR_RATIO)) / _PRIOR_SPREAD) ** 2
        mixes = np.array([self._mix(shares) for shares in SHARES])
        points = GridPosteriors.of([seen.without_questions(d) for d in DIFFICULTIES], mixes, ratios, seen)
        likelihoods = points.likelihood + log_prior
        weights: Array = np.exp(likelihoods - likelihoods.max())
        weights /= weights.sum()
        shares = weights.sum(1).reshape(len(DIFFICULTIES), len(SHARES)).sum(0) @ np.array(SHARES)
        by_point = np.log(np.repeat(DIFFICULTIES, len(SHARES)))
        self.fix(
            Variances(
                (float(shares[0]), float(shares[1]), float(shares[2])),
                float(np.exp(weights.sum(0) @ np.log(ratios))),
                float(np.exp(weights.sum(1) @ by_point)),
                float((weights * points.residual).sum()),
            )
        )
        return points, weights


def _similarities(settings: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
    """Returns how alike settings are by single values and by pairs of values, 0..1, each with a diagonal of
    ones.
    """
    names = sorted({name for setting in settings for name in setting})
    every = [[setting.get(name) for setting in settings] for name in names]
    labelled = [(values, list(map(repr, values))) for values in every]
    columns = [_alike(values, labels) for values, labels in labelled if len(set(labels)) > 1]
    if not columns:
        return np.ones((len(settings),) * 2), np.ones((len(settings),) * 2)
    count, total, squares = len(columns), sum(columns), sum(column * column for column in columns)
    single: Array = np.asarray(total / count, np.float64)
    pair: Array = np.asarray((total * total - squares) / max(1, count * (count - 1)), np.float64)
    return single, pair if count > 1 else single


def _alike(values: Sequence[Any], labels: Sequence[str]) -> Array:
    codes = _positions(labels, set(labels))
    equal: Array = (codes[:, None] == codes[None]).astype(float)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return equal
    levels = sorted(set(values))
    if len(levels) < 3:
        return equal
    ranks = _positions(values, levels) / (len(levels) - 1)
    near: Array = 1 - np.abs(ranks[:, None] - ranks[None])
    return (equal + near) / 2


def _positions(values: Sequence[Any], levels: Iterable[Any]) -> NDArray[np.int_]:
    """Returns the position of each of `values` in `levels`."""
    positions = {level: position for position, level in enumerate(levels)}
    return np.array([positions[value] for value in values])
