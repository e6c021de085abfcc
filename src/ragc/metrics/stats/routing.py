"""What choosing a program for each question could save at most, by an oracle that knows the scores.

The oracle chooses, for each question, the program with the greatest score less a price times its cost. The
price is the same for all questions. It is fitted on one half of them, so that the choices there cost as
little as possible and score no less in the mean than one program for all, and applied to the other half; then
the halves change places. A router that sees only the question saves less: it does not know the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragc.metrics.stats.resampling import Array

PRICES = 200
"""Prices that are tried, beside 0."""


@dataclass(frozen=True, slots=True)
class RoutingGain:
    """The gain of the oracle over one program for all of `questions` questions.

    `saved` is the share of that program's cost, `gained` the difference of the mean score, `used` how many
    questions each program answers.
    """

    saved: float
    gained: float
    used: tuple[int, ...]
    questions: int

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "saved": round(self.saved, 6),
            "gained": round(self.gained, 6),
            "used": list(self.used),
            "questions": self.questions,
        }


def cross_fitted_gain(scores: Array, costs: Array, one: int, *, seed: int = 0) -> RoutingGain | None:
    """Returns what the oracle gains over the program `one` for all questions.

    `scores` (greater is better) and `costs` (at least 0) have shape (programs, questions). None for fewer
    than 10 questions, fewer than two programs, values that are not finite, and where `one` costs nothing.
    """
    import numpy as np

    programs, questions = scores.shape
    known = np.isfinite(scores).all() and np.isfinite(costs).all()
    if questions < 10 or programs < 2 or not known or not costs[one].sum():
        return None
    order = np.random.default_rng(seed).permutation(questions)
    chosen = np.zeros(questions, dtype=np.intp)
    for mine, others in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        price = _price(scores[:, others], costs[:, others], one)
        chosen[mine] = _choices(scores[:, mine], costs[:, mine], price)
    at = np.arange(questions)
    return RoutingGain(
        float(1 - costs[chosen, at].sum() / costs[one].sum()),
        float(scores[chosen, at].mean() - scores[one].mean()),
        tuple(np.bincount(chosen, minlength=programs).tolist()),
        questions,
    )


def _choices(scores: Array, costs: Array, price: float) -> NDArray[np.intp]:
    """Returns the program of each question; of equal ones the cheapest."""
    import numpy as np

    worth = scores - price * costs
    best = worth >= worth.max(axis=0) - 1e-12
    cheapest: NDArray[np.intp] = np.where(best, costs, np.inf).argmin(axis=0)
    return cheapest


def _price(scores: Array, costs: Array, one: int) -> float:
    """Returns the price whose choices cost least and score no less than the program `one` in the mean."""
    import numpy as np

    steepest = float(np.ptp(scores)) / max(float(costs.std()), 1e-12) + 1e-12
    at, least = np.arange(scores.shape[1]), float(scores[one].mean()) - 1e-12
    fits = []
    for price in (0.0, *np.geomspace(steepest * 1e-4, steepest * 1e2, PRICES)):
        chosen = _choices(scores, costs, float(price))
        if scores[chosen, at].mean() >= least:
            fits.append((float(costs[chosen, at].sum()), float(price)))
    return min(fits)[1]
