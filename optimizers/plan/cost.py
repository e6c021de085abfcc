"""Estimates of the tokens and dollars of a plan's requests."""

from __future__ import annotations

import math
from typing import Any

from ragc.targets.base import Target
from ragc.targets.prices import FREE, most_context, most_usd, price_of, typed_price
from ragc.targets.reasoning import reasoning_of
from ragc.task.base import Task, reachable_targets
from ragc.task.run import MeanCallCost


def cost_about(task: Task, calls: float, prompt: int, reply: int) -> dict[str, Any]:
    """Returns about how many tokens and dollars `calls` LM calls take, None where unknown.

    `prompt` is the approximate length of a prompt and `reply` the greatest length of an answer, both in
    tokens; each target's tokens for reasoning are added.
    """
    each, targets = likely_cost(task, prompt, reply), _targets(task)
    return {
        "tokens_about": _times(calls, each.tokens),
        "usd_about": _dollars(calls, each.usd),
        "typed_prices": [target.name for target in targets if typed_price(target) not in (None, FREE)],
        "unpriced": [target.name for target in targets if price_of(target) is None],
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


def _times(calls: float, each: float | None) -> int | None:
    return None if each is None or math.isinf(calls) else int(calls * each)


def _dollars(calls: float, each: float | None) -> float | None:
    if each == 0:
        return 0.0
    return None if each is None or math.isinf(calls) else significant(calls * each)
