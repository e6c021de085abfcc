"""Decides which setting answers which questions next, and which setting wins.

Settings answer blocks of questions. After each round the model of all scores so far (`score_model`) says what
another block of a setting is worth: the knowledge gradient (Frazier, Powell and Dayanik 2009,
doi:10.1287/ijoc.1080.0314), how much the best posterior mean is expected to rise, a question. Effects of
settings are correlated, so a block of one setting teaches about its relatives and about settings that
answered nothing. A block may be worth nothing alone where several together are worth much; longer looks are
tried, too, and the best rate counts. Where no block promises anything, settings are drawn as often as they
may be the best (Thompson sampling).

The winner has the greatest posterior mean among settings whose probability of being worse than the baseline
by more than `MARGIN` is at most `RISK`. A setting that was hardly asked is pulled towards what its values
predict, so it wins only if those are known well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.errors import UsageError
from ragc.optimizers.search.score_model import Array, Posterior, ScoreModel, Variances

Numbers = NDArray[np.intp]
Mask = NDArray[np.bool_]

MARGIN = 0.01
"""The difference below the baseline that counts as worse, in units of the score."""

RISK = 0.2
"""The greatest probability of being worse than the baseline that a winner may have."""

BLOCK, ROUND = 5, 4
"""Questions a block, and blocks a round."""

LOOKS = (1, 4)
"""Blocks ahead for which the worth of a setting is computed."""

_BASELINE_BLOCKS = 4
_STARTED = 0.3
_QUESTION_SHARE = 8.0
_REFIT = 1.35

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class Choice:
    """The winner: its index, its expected mean score, and its probability of being worse than the baseline
    by more than `MARGIN`.
    """

    setting: int
    expected: float
    risk: float


class Allocation:
    """Allocates `budget` answers to `settings` on `questions` questions.

    `scores` are all answers so far, shape (settings, questions), NaN where there is none; `record` fills it.
    `variances` fixes those of the model instead of estimating them. Raises UsageError without settings,
    questions or budget, for a baseline that is no setting, and for scores that are not numbers.
    """

    def __init__(
        self,
        settings: Sequence[Mapping[str, Any]],
        questions: int,
        *,
        budget: int,
        seed: int | Sequence[int],
        baseline: int = 0,
        risk: float = RISK,
        variances: Variances | None = None,
    ) -> None:
        if not settings or questions < 1:
            raise UsageError(
                f"A search needs a setting and a question, found {len(settings)} settings and {questions} "
                "questions."
            )
        if budget < 1:
            raise UsageError(f"A search needs a budget of at least one answer, found {budget}.")
        if not 0 <= baseline < len(settings):
            raise UsageError(
                f"The baseline must be one of {len(settings)} settings, found number {baseline}."
            )
        self.scores: Array = np.full((len(settings), questions), np.nan)
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(questions)
        self._budget, self._baseline, self._risk = budget, baseline, risk
        self._model, self._variances = ScoreModel(settings), variances
        self._next_fit = 0.0
        if variances is not None:
            self._model.fix(variances)

    @property
    def spent(self) -> int:
        """The answers so far."""
        return int((~np.isnan(self.scores)).sum())

    @property
    def left(self) -> int:
        """The answers that the budget still allows."""
        return max(0, self._budget - self.spent)

    def record(
        self, setting: int, questions: Sequence[int] | Numbers, scores: Sequence[float] | Array
    ) -> None:
        """Takes the scores of a block. Raises UsageError for a score that is not a number."""
        values = np.asarray(scores, dtype=float)
        if not np.isfinite(values).all():
            raise UsageError(
                f"Setting {setting} has a score that is no number; an unanswered question scores 0."
            )
        self.scores[setting, np.asarray(questions, dtype=int)] = values

    def start(self) -> Iterator[tuple[int, Numbers]]:
        """The first blocks: of the baseline, then of settings drawn at random. Each is recorded before the
        next.
        """
        if block := self._block(self._baseline, _BASELINE_BLOCKS * BLOCK):
            yield block
        others = [s for s in self._rng.permutation(len(self.scores)) if s != self._baseline]
        for setting in others[: max(4, int(self._budget * _STARTED / BLOCK))]:
            if block := self._block(int(setting), BLOCK):
                yield block

    def next_round(self) -> list[tuple[int, Numbers]]:
        """The blocks to ask next, at most `ROUND`; empty when the budget is spent or nothing is left."""
        open_settings: Mask = np.asarray(np.isnan(self.scores).any(axis=1))
        if not self.left or not open_settings.any():
            return []
        posterior = self._posterior()
        worth = self._worth(posterior)
        worth[~open_settings] = -1.0
        if worth.max() > 1e-12:
            chosen = np.argsort(-worth, kind="stable")[:ROUND]
        else:
            chosen = self._draw(posterior, open_settings)
        blocks, left = [], self.left
        for setting in chosen:
            if open_settings[setting] and left > 0 and (block := self._block(int(setting), min(BLOCK, left))):
                blocks.append(block)
                left -= len(block[1])
        return blocks

    def choose(self, allowed: Sequence[int] | None = None) -> Choice:
        """The winner so far, of the settings `allowed`, by default all."""
        fitted = self._variances is None
        posterior = self._model.fit(self.scores) if fitted else self._model.posterior(self.scores)
        risk = posterior.worse_than(self._baseline, MARGIN)
        possible = risk <= self._risk
        if allowed is not None:
            possible &= np.isin(np.arange(len(risk)), list(allowed))
            possible[self._baseline] = True
        winner = int(np.argmax(np.where(possible, posterior.mean, -np.inf)))
        return Choice(winner, float(posterior.mean[winner]), float(risk[winner]))

    def _posterior(self) -> Posterior:
        if self._variances is None and self.spent >= self._next_fit:
            self._model.fit(self.scores)
            self._next_fit = self.spent * _REFIT + 1
        return self._model.posterior(self.scores)

    def _worth(self, posterior: Posterior) -> Array:
        """What an answer of each setting is expected to add to the best mean, for the best of `LOOKS`."""
        unanswered = np.maximum(np.isnan(self.scores).sum(axis=1), 1)
        mean, cov = posterior.mean, posterior.covariance
        worth: Array = np.full(len(mean), -1.0)
        for blocks in LOOKS:
            answers = np.minimum(blocks * BLOCK, unanswered)
            change = cov / np.sqrt(np.diag(cov) + posterior.residual / answers)[None]
            best = sum(
                weight * (mean[:, None] + change * node).max(axis=0)
                for node, weight in zip(_NODES, _WEIGHTS, strict=True)
            )
            worth = np.maximum(worth, (best - mean.max()) / answers)
        return worth

    def _draw(self, posterior: Posterior, open_settings: Mask) -> Numbers:
        jitter = 1e-12 * np.eye(len(posterior.mean))
        draws = self._rng.multivariate_normal(
            posterior.mean, posterior.covariance + jitter, size=ROUND, method="cholesky"
        )
        draws[:, ~open_settings] = -np.inf
        return np.unique(draws.argmax(axis=1))

    def _block(self, setting: int, size: int) -> tuple[int, Numbers] | None:
        """Up to `size` unanswered questions of a setting, from those that a budget of this size can share.

        Each question should be answered by several settings, or its difficulty is unknown.
        """
        free = self._order[np.isnan(self.scores[setting, self._order])]
        size = min(size, self.left, len(free))
        if size < 1:
            return None
        shared = self._order[: max(10, int(self._budget / _QUESTION_SHARE))]
        first = free[np.isin(free, shared)]
        pool = first if len(first) >= size else free
        return setting, self._rng.permutation(pool)[:size]
