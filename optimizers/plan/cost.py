"""Upper bounds on the tokens and dollars of a plan's requests."""

from __future__ import annotations

import math
from typing import Any

from ragc.optimizers.harness.teacher import MAX_REPLY_TOKENS
from ragc.targets.base import Target
from ragc.targets.prices import FREE, most_context, most_usd, price_of, typed_price
from ragc.targets.reasoning import reasoning_of
from ragc.task.base import Task, reachable_targets
from ragc.task.run import MeanCallCost


def cost_bounds(task: Task, requests: float, about: float, prompt: int, reply: int) -> dict[str, Any]:
    """Returns upper bounds on tokens and dollars of `requests` requests, and estimates for `about` requests.

    `prompt` is the approximate length of a prompt and `reply` the greatest length of an answer, both in
    tokens; each target's tokens for thoughts are added. Unknown amounts are None.
    """
    longest = max(reply, MAX_REPLY_TOKENS if task.recipe.search.instructions else reply)
    targets = _targets(task)
    tokens = _greatest([most_context(target) for target in targets])
    usd = _greatest([most_usd(one, most_context(one), longest + reasoning_of(one)) for one in targets])
    each = likely_cost(task, prompt, reply)
    return {
        "tokens": _times(requests, tokens),
        "tokens_about": _times(about, each.tokens),
        "usd": _dollars(requests, usd),
        "usd_about": _dollars(about, each.usd),
        "typed_prices": [one.name for one in targets if typed_price(one) not in (None, FREE)],
        "unpriced": [one.name for one in targets if price_of(one) is None],
    }


def likely_cost(task: Task, prompt: int, reply: int) -> MeanCallCost:
    """Returns the cost of an LM call of `task` with `prompt` and `reply` tokens."""
    targets = _targets(task)
    most = _greatest([most_context(target) for target in targets])
    tokens = prompt + reply + max(map(reasoning_of, targets), default=0)
    usd = _greatest([most_usd(target, prompt, reply + reasoning_of(target)) for target in targets])
    return MeanCallCost(tokens if most is None else min(tokens, most), usd)


def _targets(task: Task) -> list[Target]:
    knobs = tuple(task.baseline_knobs.values())
    return list(dict.fromkeys(reachable_targets(task.recipe, task.runtime, knobs).values()))


def significant(amount: float) -> float:
    """Rounds an amount in dollars to cents, below a dollar to three significant digits."""
    return round(amount, 2) if amount >= 1 else float(f"{amount:.3g}")


def _greatest(amounts: list[Any]) -> Any:
    """Returns the greatest amount; None if any is unknown."""
    return None if None in amounts else max(amounts, default=0)


def _times(requests: float, each: float | None) -> int | None:
    return None if each is None or math.isinf(requests) else int(requests * each)


def _dollars(requests: float, each: float | None) -> float | None:
    if each == 0:
        return 0.0
    return None if each is None or math.isinf(requests) else significant(requests * each)
