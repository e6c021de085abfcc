"""The share of a study that its budget pays for: one figure for the dry run, the headroom and the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.core.display import dollars, quantity
from ragc.recipe import Budget

_LIMITS = ("lm_calls", "tokens", "usd")


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The limit that ends a study first, and what it pays for.

    `share` is that of the whole study, 0..1. Beside the baseline, the test questions and the preparation of
    the trials, it pays for as many answers as `trials` of `of` trials take. `cost` is an estimate of the
    limit `what` that the whole study takes. `limit` is the limit itself, and `spare` the part of it that has
    to stay unspent, because requests reserve more than they cost.
    """

    what: str
    share: float
    trials: int
    of: int
    cost: float
    limit: float
    spare: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether the budget pays for the whole study."""
        return self.share >= 1

    @property
    def text(self) -> str:
        """Returns the sentence on it, without a full stop."""
        if self.is_whole:
            return "the budget pays for the whole study"
        if not self.of:
            return f"the budget pays for about {_percent(self.share)} of this study: {self._cost}"
        enough = f"enough for {self.trials} of {quantity(self.of, 'trial')} on all dev questions"
        return f"the budget pays for about {_percent(self.share)} of this study, {enough}: {self._cost}"

    @property
    def _cost(self) -> str:
        beyond = "that requests reserve beyond what they cost"
        if self.what == "usd":
            spare = f" and {dollars(self.spare)} {beyond}" if self.spare else ""
            return f"{dollars(self.limit)} of about {dollars(self.cost)}{spare}"
        name = {"lm_calls": "LM calls", "tokens": "tokens"}[self.what]
        spare = f" and {self.spare:,.0f} {beyond}" if self.spare else ""
        return f"{self.limit:,.0f} of about {self.cost:,.0f} {name}{spare}"

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "limit": self.what,
            "share": self.share,
            "trials": self.trials,
            "of": self.of,
            "cost": self.cost,
            "spare": self.spare,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """How the calls of a study divide, in shares of all of them, 0..1.

    `fixed` are those of the baseline and on the test questions, `prepared` those that collect demonstrations
    and write instructions for the trials. The rest are calls of the trials.
    """

    fixed: float
    prepared: float = 0.0


def budget_share(
    limits: Budget,
    costs: Mapping[str, float | None],
    *,
    work: Work,
    trials: int,
    spares: Mapping[str, float] | None = None,
) -> BudgetShare | None:
    """Returns the share of a study that `limits` pay for; None if no limit with a known cost is set.

    `costs` of the whole study are by the name of a limit, None where unknown. `spares` are the amounts of a
    limit that have to stay unspent.
    """
    shares = [
        BudgetShare(what, *_paid(limit - spare, cost, work, trials), trials, cost, limit, spare)
        for what in _LIMITS
        if (limit := getattr(limits, what)) is not None and (cost := costs.get(what))
        for spare in [(spares or {}).get(what, 0.0)]
    ]
    return min(shares, key=lambda part: part.share, default=None)


def _paid(amount: float, cost: float, work: Work, trials: int) -> tuple[float, int]:
    """Returns the share of the study, and the trials, that `amount` pays for."""
    if amount >= cost:
        return 1.0, trials
    share = max(0.0, amount / cost)
    of_trials = 1 - work.fixed - work.prepared
    left = share - work.fixed - work.prepared
    return share, max(0, int(trials * left / of_trials)) if of_trials > 0 else 0


def _percent(share: float) -> str:
    """Returns a share below 1 in percent, never 0% or 100%."""
    return "less than 1%" if share < 0.01 else f"{min(share, 0.99):.0%}"
