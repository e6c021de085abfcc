"""The linear algebra of the model of scores: normal equations of settings, solved on a grid of variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PRIOR_VARIANCE, PRIOR_WEIGHT = 0.1, 0.5
"""The residual variance before any answer, and the number of answers that it counts as."""


@dataclass(frozen=True, slots=True)
class NormalEquations:
    """The normal equations of the settings' effects after questions and level are eliminated."""

    weights: Array
    sums: Array
    squares: float
    log_det: float
    pull: Array
    total: float
    mass: float

    def level(self, effects: Array) -> float:
        """Returns the level that fits the settings' `effects`."""
        return float((self.total - self.pull @ effects) / self.mass)


@dataclass(frozen=True, slots=True)
class AnsweredCells:
    """The answered cells, shape (settings, questions): `mask` is 0 or 1, `values` 0 where there is none."""

    mask: Array
    values: Array

    @classmethod
    def of(cls, scores: Array) -> AnsweredCells:
        """Returns the cells of `scores`, NaN where nothing was answered. Raises ValueError if all are."""
        mask = ~np.isnan(scores)
        if not mask.any():
            raise ValueError("A model of scores needs at least one score, found none.")
        used = mask.any(axis=0)
        return cls(mask[:, used].astype(float), np.where(mask, scores, 0.0)[:, used])

    @property
    def count(self) -> float:
        """The number of answered cells."""
        return float(self.mask.sum())

    def without_questions(self, difficulty: float) -> NormalEquations:
        """Returns the equations of the settings' effects at this `difficulty` (see `Variances`)."""
        answers, sums = self.mask.sum(0), self.values.sum(0)
        share = 1 / (answers + difficulty)
        weights = np.diag(self.mask.sum(1)) - (self.mask * share) @ self.mask.T
        pull = self.mask @ (difficulty * share)
        mass = float((difficulty * answers * share).sum())
        own = self.values.sum(1) - self.mask @ (sums * share)
        total = float((sums * difficulty * share).sum())
        squares = float((self.values**2).sum() - (sums**2 * share).sum() - total**2 / mass)
        return NormalEquations(
            weights - np.outer(pull, pull) / mass,
            own - pull * total / mass,
            squares,
            float(np.log1p(answers / difficulty).sum() + np.log(mass)),
            pull,
            total,
            mass,
        )


@dataclass(frozen=True, slots=True)
class GridPosteriors:
    """The posteriors at all points: difficulties by mixes of shares, and ratios.

    Only settings that answered something have equations, so effects are independent in as many coordinates:
    `sums` and `values`, shape (points, answered), are what the scores say of each. `turned`, shape (points,
    answered, answered), maps them to weights of `rows`, the settings that answered, whose similarities with
    all settings give these their effects. The other directions are as before any answer. `likelihood` and
    `residual` have shape (points, ratios), `reduced` and `mixes` length difficulties and shares.
    """

    reduced: Sequence[NormalEquations]
    mixes: Array
    ratios: Array
    likelihood: Array
    residual: Array
    rows: NDArray[np.intp]
    turned: Array
    sums: Array
    values: Array

    @classmethod
    def of(
        cls, reduced: Sequence[NormalEquations], mixes: Array, ratios: Array, seen: AnsweredCells
    ) -> GridPosteriors:
        """Solves the equations at all points for the answered cells `seen`."""
        rows, count = np.flatnonzero(seen.mask.any(axis=1)), seen.count
        strengths, directions = np.linalg.eigh(
            np.array([equations.weights[np.ix_(rows, rows)] for equations in reduced])
        )
        half = directions * np.sqrt(np.maximum(strengths, 0))[:, None]
        within = half.transpose(0, 2, 1)[:, None] @ mixes[:, rows[:, None], rows] @ half[:, None]
        values, vectors = np.linalg.eigh(within.reshape(-1, len(rows), len(rows)))
        informative = values > 1e-12 * np.maximum(values[:, -1:], 1e-300)
        scale = np.where(informative, 1 / np.sqrt(np.where(informative, values, 1.0)), 0.0)
        values = np.where(informative, values, 0.0)
        turned = half[:, None] @ vectors.reshape(len(reduced), len(mixes), len(rows), len(rows))
        turned = turned.reshape(vectors.shape) * scale[:, None]
        by_point = [equations for equations in reduced for _ in mixes]
        toward = np.array([mix[rows] @ equations.sums for equations in reduced for mix in mixes])
        sums = (toward[:, None] @ turned)[:, 0]
        column = ratios[:, None]
        ratio_values = column * values[:, None]
        explained = (column * sums[:, None] ** 2 / (1 + ratio_values)).sum(2)
        squares = np.array([point.squares for point in by_point])[:, None]
        residual = np.maximum(squares - explained, 1e-6 * count) + PRIOR_VARIANCE * PRIOR_WEIGHT
        residual /= count - 1 + PRIOR_WEIGHT
        log_det = np.array([point.log_det for point in by_point])[:, None] + np.log1p(ratio_values).sum(2)
        likelihood = -0.5 * ((count - 1) * np.log(residual) + log_det)
        return cls(reduced, mixes, ratios, likelihood, residual, rows, turned, sums, values)

    def average(self, weights: Array) -> tuple[Array, Array]:
        """Returns mean scores of all settings and the covariance of their effects; `weights` add up to 1.

        How far means at different ratios of one point lie apart is left out, so the covariance is too small;
        `search.risk` was chosen with it (experiments/LOG.md).
        """
        column = self.ratios[:, None]
        shrunk = column / (1 + column * self.values[:, None])
        means = np.zeros((len(self.values), self.mixes.shape[1]))
        cov: Array = np.zeros(self.mixes.shape[1:])
        shares = weights.sum(1)
        for point in np.flatnonzero(shares):
            similar, weight, share = self._similar(point), weights[point], shares[point]
            effects = similar @ (self.turned[point] @ (weight @ shrunk[point] * self.sums[point]))
            reduced = self.reduced[int(point) // len(self.mixes)]
            means[point] = share * reduced.level(effects / share) + effects
        total: Array = means.sum(0)
        for point in np.flatnonzero(shares > 1e-4):
            basis = self._similar(point) @ self.turned[point]
            scaled = weights[point] * self.residual[point]
            before = float(scaled @ self.ratios)
            gap = means[point] / shares[point] - total
            cov += before * self.mixes[point % len(self.mixes)]
            cov += (basis * (scaled @ shrunk[point] - before)) @ basis.T + shares[point] * np.outer(gap, gap)
        return total, cov

    def _similar(self, point: np.intp) -> Array:
        """Returns how alike all settings are to those that answered, by the mix of this `point`."""
        similar: Array = self.mixes[int(point) % len(self.mixes)][:, self.rows]
        return similar
