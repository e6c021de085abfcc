"""The amount that requests reserve beyond their cost: a part of the budget that a study must leave unspent.

    before the test questions   the last call on test reserves more than it costs: held back during the search
    during the search           so does the last call of the search

Both amounts are the same spare. The study holds back the first, and the share of a study that a budget pays
for (`budget_share`) leaves out both.
"""

from __future__ import annotations

from ragc.targets.reasoning import room_of
from ragc.targets.token_price import MILLION, price_of
from ragc.task.base import Task
from ragc.task.budget import Spare

CALL_COST_RATIO = 1.25
"""The cost of a call of the study over one of the baseline's on dev, where demonstrations or instructions may
lengthen prompts: half of the calls on test are the winner's, taken to cost half as much again.
"""

SPARE_CALLS = 10
"""What a call reserves beside its reply, in mean costs of a call: a reserve counts bytes, a cost tokens."""

AT_ONCE = 2
"""The spares that a study needs free at the end of its search: for test, and for the last call on dev."""


def longer(task: Task) -> float:
    """Returns the mean cost of a call of the study as a multiple of that of a baseline call."""
    return CALL_COST_RATIO if task.recipe.search.demos or task.recipe.search.instructions else 1.0


def spare_of(task: Task) -> Spare:
    """Returns what a call of `task` reserves beyond its cost. Builds the baseline's program."""
    program = task.method.build(task.runtime, task.baseline_knobs)
    reply = max((call.sampling.max_tokens for call in program.predictors()), default=0)
    reply += max(map(room_of, task.runtime.targets.values()), default=0)
    return Spare(SPARE_CALLS, reply, reply * _dearest_token(task))


def _dearest_token(task: Task) -> float:
    """Returns the dollars of a reply token of the dearest target; 0 without a budget in dollars."""
    if task.recipe.budget.usd is None:
        return 0.0
    prices = (price_of(target) for target in task.runtime.targets.values())
    return max((price.output for price in prices if price is not None), default=0.0) / MILLION


def price_calls(task: Task, calls: int) -> dict[str, float]:
    """Sets the cost of held-back calls by the first `calls` of the study; returns tokens and dollars of one.

    Empty where the budget limits neither.
    """
    budget = task.recipe.budget
    if budget.tokens is None and budget.usd is None:
        return {}
    tokens, usd = task.ledger.price_held(calls, longer(task), spare_of(task))
    return {"tokens": tokens, "usd": usd}
