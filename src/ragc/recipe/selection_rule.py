"""How the program to compile is chosen among trials, as the table `[search]` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragc.metrics import get
from ragc.metrics.base import Objective
from ragc.metrics.limits import CostLimit
from ragc.recipe.models import Search
from ragc.recipe.values import RISK


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """The rule that chooses among trials with `objectives`: the best in `pick` within the `limits`.

    A trial with a probability above `risk` of being more than the margin worse than the baseline is chosen
    only where no other may be. Of trials that are expected to be at most `within` below the best, in units of
    `pick`, the one that is best in `then` is chosen; None for the best itself.
    """

    objectives: tuple[Objective, ...]
    pick: Objective
    risk: float = RISK
    limits: tuple[CostLimit, ...] = ()
    within: float = 0.0
    then: Objective | None = None

    @classmethod
    def of(cls, search: Search, objectives: Sequence[Objective]) -> SelectionRule:
        """Returns the rule of the table `search`, whose objectives are read as `objectives`."""
        pick = next(one for one in objectives if one.name == search.pick_name)
        within, then = 0.0, None
        if not isinstance(search.pick, str):
            metric = get(search.pick.then, load=True)
            within, then = search.pick.within, Objective(metric, 1 if metric.higher_is_better else -1)
        return cls(tuple(objectives), pick, search.risk, search.limits.limits, within, then)

    @classmethod
    def by(cls, objective: Objective) -> SelectionRule:
        """Returns the rule of a search with one `objective` and nothing else."""
        return cls((objective,), objective)
