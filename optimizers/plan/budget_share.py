"""What share of a study its budget pays for: one figure for the dry run, the headroom and the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.core.display import dollars, quantity
from ragc.recipe import Budget

_LIMITS = ("lm_calls", "tokens", "usd", "minutes")


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The limit that ends a study first, and what it pays for.

    `share` is that of the whole study, 0..1; `trials` are those of `of` that it pays for beside the baseline
    and the test questions. `cost` is about what the whole study takes of the limit `what`, and `limit` is it.
    """

    what: str
    share: float
    trials: int
    of: int
    cost: float
    limit: float

    @property
    def is_whole(self) -> bool:
        """Whether the budget pays for the whole study."""
        return self.share >= 1

    @property
    def text(self) -> str:
        """The sentence on it, without an end."""
        if self.is_whole:
            return "the budget pays for the whole study"
        if not self.of:
            return f"the budget pays for about {_percent(self.share)} of this study, {self._cost}"
        return (
            f"the budget pays for about {_percent(self.share)} of this study: {self.trials} of "
            f"{quantity(self.of, 'trial')} on all dev questions, {self._cost}"
        )

    @property
    def _cost(self) -> str:
        if self.what == "usd":
            return f"{dollars(self.limit)} of about {dollars(self.cost)}"
        name = {"lm_calls": "LM calls", "tokens": "tokens", "minutes": "minutes"}[self.what]
        return f"{self.limit:,.0f} of about {self.cost:,.0f} {name}"

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "limit": self.what,
            "share": self.share,
            "trials": self.trials,
            "of": self.of,
            "cost": self.cost,
        }


def budget_share(
    limits: Budget, costs: Mapping[str, float | None], *, fixed: float, trials: int
) -> BudgetShare | None:
    """What `limits` pay for of a study that takes `costs` in all; None if nothing that is known is limited.

    `costs` are by the name of a limit, None where unknown. `fixed` is the share of them, 0..1, that the
    baseline and the test questions take; the rest goes to `trials` and what prepares them.
    """
    shares = [
        BudgetShare(what, *_paid(limit, cost, fixed, trials), trials, cost, limit)
        for what in _LIMITS
        if (limit := getattr(limits, what)) is not None and (cost := costs.get(what))
    ]
    return min(shares, key=lambda one: one.share, default=None)


def _paid(limit: float, cost: float, fixed: float, trials: int) -> tuple[float, int]:
    """The share of the study, and the trials, that `limit` pays for."""
    if limit >= cost:
        return 1.0, trials
    left = limit - fixed * cost
    return limit / cost, max(0, int(trials * left / ((1 - fixed) * cost))) if fixed < 1 else 0


def _percent(share: float) -> str:
    """A share below 1 in percent, never 0% or 100%."""
    return "less than 1%" if share < 0.01 else f"{min(share, 0.99):.0%}"
