"""The model of scores: exact where it can be checked by brute force, and calibrated where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.optimizers.search.normal_equations import Array
from ragc.optimizers.search.score_model import (
    ScoreModel,
    Variances,
)

GRID = [{"top_k": k, "layout": layout} for k in (1, 3, 5, 10) for layout in ("json", "markers", "chat")]
VARIANCES = Variances((0.6, 0.3, 0.1), 0.2, 0.7, 0.15)


def brute_force(model: ScoreModel, scores: Array, variances: Variances) -> tuple[Array, Array]:
    """Mean and covariance of the effects by the dense formulas, with a very wide prior of the level."""
    similarity = model._mix(variances.shares)
    between = variances.ratio * variances.residual
    questions = variances.residual / variances.difficulty
    rows, columns = np.nonzero(~np.isnan(scores))
    y = scores[rows, columns]
    cov = between * similarity[np.ix_(rows, rows)] + questions * (columns[:, None] == columns[None])
    cov = cov + variances.residual * np.eye(len(y))
    inverse = np.linalg.inv(cov)
    level = (inverse.sum(0) @ y) / inverse.sum()
    cross = between * similarity[:, rows]
    mean = level + cross @ inverse @ (y - level)
    ones = np.ones(len(y))
    gain = cross @ inverse
    unsure = -gain @ ones
    posterior = between * similarity - gain @ cross.T + np.outer(unsure, unsure) / inverse.sum()
    return mean, posterior


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 0.9), st.integers(1, 12))
def test_the_posterior_is_that_of_the_dense_formulas(seed: int, share: float, questions: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random((len(GRID), questions))
    scores[rng.random(scores.shape) > share] = np.nan
    scores[0, 0] = 0.5
    model = ScoreModel(GRID)
    model.fix(VARIANCES)
    posterior = model.posterior(scores)
    mean, cov = brute_force(model, scores, VARIANCES)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-6)
    np.testing.assert_allclose(posterior.covariance, cov, atol=1e-6)


def test_a_setting_without_answers_is_expected_to_be_like_its_relatives() -> None:
    rng = np.random.default_rng(1)
    good = {"json": 0.75, "markers": 0.2, "chat": 0.4}
    scores = np.array([[float(rng.random() < good[str(s["layout"])]) for _ in range(60)] for s in GRID])
    unseen = [i for i, s in enumerate(GRID) if s["top_k"] == 5]
    scores[unseen] = np.nan
    posterior = ScoreModel(GRID).fit(scores)
    mean = {GRID[i]["layout"]: posterior.mean[i] for i in unseen}
    assert mean["json"] > mean["chat"] > mean["markers"]
    assert mean["json"] == pytest.approx(0.75, abs=0.12)


def draw(rng: np.random.Generator, questions: int) -> tuple[Array, Array]:
    """True means and scores of the model's own kind."""
    similarity = ScoreModel(GRID)._mix(VARIANCES.shares)
    effects = np.linalg.cholesky(similarity + 1e-9 * np.eye(len(GRID))) @ rng.normal(size=len(GRID))
    true = 0.4 + effects * np.sqrt(VARIANCES.ratio * VARIANCES.residual)
    ease = rng.normal(0, np.sqrt(VARIANCES.residual / VARIANCES.difficulty), questions)
    noise = rng.normal(0, np.sqrt(VARIANCES.residual), (len(GRID), questions))
    return true, true[:, None] + ease + noise


def test_nine_of_ten_differences_lie_within_their_intervals() -> None:
    """Differences to the first setting, with half of the cells missing, over 40 draws."""
    inside = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        true, scores = draw(rng, 24)
        scores[rng.random(scores.shape) < 0.5] = np.nan
        posterior = ScoreModel(GRID).fit(scores)
        cov = posterior.covariance
        sd = np.sqrt(np.diag(cov) + cov[0, 0] - 2 * cov[:, 0])[1:]
        gap = (posterior.mean - posterior.mean[0] - (true - true[0]))[1:]
        inside += list(np.abs(gap) < 1.645 * sd)
    assert 0.84 <= np.mean(inside) <= 0.95
