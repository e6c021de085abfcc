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
    """The normal equations of the settings' effects after questions and level are eliminated.

    Their matrix is that of `answers`, the number of each setting, on the diagonal, less what settings share:
    `shared` times its transpose, of shape (settings, questions + 1).
    """

    answers: Array
    shared: Array
    sums: Array
    squares: float
    log_det: float
    pull: Array
    total: float
    mass: float

    def weights(self) -> Array:
        """Returns their matrix."""
        matrix: Array = np.diag(self.answers) - self.shared @ self.shared.T
        return matrix

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
        pull = self.mask @ (difficulty * share)
        mass = float((difficulty * answers * share).sum())
        own = self.values.sum(1) - self.mask @ (sums * share)
        total = float((sums * difficulty * share).sum())
        squares = float((self.values**2).sum() - (sums**2 * share).sum() - total**2 / mass)
        return NormalEquations(
            self.mask.sum(1),
            np.hstack([self.mask * np.sqrt(share), pull[:, None] / np.sqrt(mass)]),
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

    Only settings that answered something, `rows`, have equations. Their effects are independent and alike
    before any answer in the coordinates of a Cholesky factor of their similarities, one of `factors` a mix,
    and the equations of a point are tridiagonal after a further rotation, `reflected`. So each ratio takes a
    time linear in their number. `steps`, shape (answered, points, ratios), lead from each coordinate of a
    posterior mean to the next, and `pivots` are those of the tridiagonal equations, from the last coordinate
    on. `likelihood` and `residual` have shape (points, ratios), `reduced` and `mixes` length difficulties and
    shares.
    """

    reduced: Sequence[NormalEquations]
    mixes: Array
    ratios: Array
    likelihood: Array
    residual: Array
    rows: NDArray[np.intp]
    factors: Array
    reflected: Sequence[tuple[Array, Array]]
    pivots: Array
    steps: Array

    @classmethod
    def of(
        cls, reduced: Sequence[NormalEquations], mixes: Array, ratios: Array, seen: AnsweredCells
    ) -> GridPosteriors:
        """Solves the equations at all points for the answered cells `seen`."""
        rows, count = np.flatnonzero(seen.mask.any(axis=1)), seen.count
        factors = np.asarray(np.linalg.cholesky(mixes[:, rows[:, None], rows]), np.float64)
        answered = [factor.T * seen.mask.sum(1)[rows] @ factor for factor in factors]
        by_point = [(point, *mix) for point in reduced for mix in zip(factors, answered, strict=True)]
        solved = []
        for point, factor, own in by_point:
            shared = factor.T @ point.shared[rows]
            solved.append(_tridiagonal(own - shared @ shared.T, factor.T @ point.sums[rows]))
        diagonal = np.stack([equations[0] for equations in solved], axis=1)[:, :, None]
        beside = np.stack([equations[1] for equations in solved], axis=1)[:, :, None] * ratios
        pivots = 1 + ratios * diagonal
        for index in range(len(rows) - 1, 0, -1):
            pivots[index - 1] -= beside[index] ** 2 / pivots[index]
        steps = beside / pivots
        steps[1:] *= -1
        explained = beside[0] * steps[0] / ratios
        squares = np.array([point.squares for point, *_ in by_point])[:, None]
        residual = np.maximum(squares - explained, 1e-6 * count) + PRIOR_VARIANCE * PRIOR_WEIGHT
        residual /= count - 1 + PRIOR_WEIGHT
        log_det = np.array([point.log_det for point, *_ in by_point])[:, None] + np.log(pivots).sum(0)
        likelihood = -0.5 * ((count - 1) * np.log(residual) + log_det)
        reflected = [equations[2] for equations in solved]
        return cls(reduced, mixes, ratios, likelihood, residual, rows, factors, reflected, pivots, steps)

    def average(self, weights: Array) -> tuple[Array, Array]:
        """Returns mean scores of all settings and the covariance of their effects; `weights` add up to 1.

        How far means at different ratios of one point lie apart is left out, so the covariance is too small;
        `search.risk` was chosen with it (experiments/LOG.md).
        """
        shares, scaled = weights.sum(1), weights * self.residual
        means = np.zeros((len(shares), self.mixes.shape[1]))
        cov: Array = np.zeros(self.mixes.shape[1:])
        coordinates = (np.cumprod(self.steps, axis=0) * weights).sum(2).T
        inverses = self._inverses(np.flatnonzero(shares > 1e-4), scaled)
        for index, mix in enumerate(self.mixes):
            points = [at for at in range(index, len(shares), len(self.mixes)) if shares[at] > 1e-12]
            if not points:
                continue
            basis = solve_lower(self.factors[index], mix[self.rows]).T
            within: Array = np.zeros((len(self.rows),) * 2)
            for point in points:
                rotation = _rotation(*self.reflected[point])
                effects = basis @ (rotation @ coordinates[point])
                level = self.reduced[point // len(self.mixes)].level(effects / shares[point])
                means[point] = shares[point] * level + effects
                if point in inverses:
                    before = float(scaled[point] @ self.ratios)
                    within += rotation @ inverses[point] @ rotation.T
                    within[np.diag_indices_from(within)] -= before
                    cov += before * mix
            cov += basis @ within @ basis.T
        total: Array = means.sum(0)
        heavy = list(inverses)
        gaps = means[heavy] / shares[heavy, None] - total
        return total, cov + (gaps.T * shares[heavy]) @ gaps

    def _inverses(self, points: NDArray[np.intp], weights: Array) -> dict[int, Array]:
        """Returns the sum over ratios of `weights` times the covariance at `points`, in their coordinates."""
        steps, weights = self.steps[:, points], weights[points, None]
        size = len(steps)
        row, diagonal = np.zeros((*steps.shape[1:], size)), np.zeros(steps.shape[1:])
        sums = np.zeros((len(points), size, size))
        for index, pivot in enumerate(self.pivots[:, points]):
            diagonal = self.ratios / pivot + (steps[index] ** 2 * diagonal if index else 0)
            row[..., :index] *= steps[index][..., None]
            row[..., index] = diagonal
            sums[:, index, : index + 1] = (weights @ row[..., : index + 1])[:, 0]
            sums[:, :index, index] = sums[:, index, :index]
        return dict(zip(points.tolist(), sums, strict=True))


def _tridiagonal(matrix: Array, vector: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """Returns `matrix` as a tridiagonal one, in coordinates of which the first one is along `vector`.

    The diagonal; beside it the length of `vector` and then the other diagonal; and Householder reflections.
    """
    from scipy.linalg import lapack

    bordered = np.zeros((len(matrix) + 1,) * 2)
    bordered[1:, 1:], bordered[0, 1:] = matrix, vector
    work = int(lapack.dsytrd_lwork(len(bordered), lower=1)[0])
    reflections, diagonal, beside, scales, _ = lapack.dsytrd(bordered.T, lower=1, lwork=work, overwrite_a=1)
    return diagonal[1:], beside, (reflections, scales)


def _rotation(reflections: Array, scales: Array) -> Array:
    """Returns the rotation back from the coordinates of `_tridiagonal`."""
    from scipy.linalg import lapack

    work = int(lapack.dorghr_lwork(len(reflections))[0])
    rotation: Array = lapack.dorghr(reflections, scales, lwork=work)[0][1:, 1:]
    return rotation


def solve_lower(factor: Array, matrix: Array) -> Array:
    """Returns the solution of a system whose matrix, `factor`, is lower triangular."""
    from scipy.linalg import solve_triangular

    solution: Array = solve_triangular(factor, matrix, lower=True, check_finite=False)
    return solution
