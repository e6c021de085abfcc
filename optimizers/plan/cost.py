"""Upper bounds on the tokens and dollars of a plan's requests."""

from __future__ import annotations

import math
from typing import Any

from ragc.optimizers.harness.teacher import MAX_REPLY_TOKENS
from ragc.targets.base import Target
from ragc.targets.prices import RequestLimits, request_limits
from ragc.targets.token_price import typed_price
from ragc.task.base import Task
from ragc.task.prices import reachable_targets
from ragc.task.run import MeanCallCost


def cost_bounds(task: Task, requests: float, about: float, prompt: int, reply: int) -> dict[str, Any]:
    """Returns upper bounds on tokens and dollars of `requests` requests, and estimates for `about` requests.

    `prompt` is the approximate length of a prompt and `reply` the greatest length of an answer, both in
    tokens; each target's tokens for thoughts are added. Unknown amounts are None.
    """
    longest, targets, limits = _limits(task, reply)
    tokens = _greatest([limit.tokens for limit in limits])
    usd = _greatest([limit.usd(longest) for limit in limits])
    each = likely_cost(task, prompt, reply)
    return {
        "tokens": _times(requests, tokens),
        "tokens_about": _times(about, each.tokens),
        "usd": _dollars(requests, usd),
        "usd_about": _dollars(about, each.usd),
        "typed_prices": [t.name for t in targets if (typed := typed_price(t)) and not typed.is_free],
        "unpriced": [t.name for t, limit in zip(targets, limits, strict=True) if limit.prompt_usd is None],
    }


def likely_cost(task: Task, prompt: int, reply: int) -> MeanCallCost:
    """Returns the cost of an LM call of `task` with `prompt` and `reply` tokens."""
    _, _, limits = _limits(task, reply)
    most = _greatest([limit.tokens for limit in limits])
    tokens = prompt + reply + max((limit.thinking for limit in limits), default=0)
    tokens = tokens if most is None else min(tokens, most)
    return MeanCallCost(tokens, _greatest([_likely_usd(limit, prompt, reply) for limit in limits]))


def _limits(task: Task, reply: int) -> tuple[int, list[Target], list[RequestLimits]]:
    """Returns the longest reply of any request in tokens, the possible targets, and their limits."""
    longest = max(reply, MAX_REPLY_TOKENS if task.recipe.search.instructions else reply)
    knobs = tuple(task.baseline_knobs.values())
    targets = list(dict.fromkeys(reachable_targets(task.recipe, task.runtime, knobs).values()))
    return longest, targets, [request_limits(target, longest) for target in targets]


def _likely_usd(limit: RequestLimits, prompt: int, reply: int) -> float | None:
    """Returns dollars of a request with `prompt` and `reply` tokens; None if a price is unknown."""
    if limit.prompt_usd is None or limit.reply_usd is None:
        return None
    return prompt * limit.prompt_usd + (reply + limit.thinking) * limit.reply_usd


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
