"""Upper bounds on the tokens and dollars of a plan's requests, and an estimate of their duration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ragc.optimizers.external.teacher import LONGEST_REPLY
from ragc.optimizers.plan.speed import seconds_per_request
from ragc.optimizers.task import Task
from ragc.recipe.resolved import OWN_OPTIMIZER
from ragc.targets.base import Target
from ragc.targets.prices import RequestLimits, request_limits


def cost_bounds(task: Task, requests: float, about: float, prompt: int, reply: int) -> dict[str, Any]:
    """Upper bounds on tokens and dollars of `requests` requests, and estimates for `about` requests.

    `prompt` is the approximate length of a prompt and `reply` the greatest length of a reply, both in tokens.
    Unknown amounts are None.
    """
    longest = max(reply, LONGEST_REPLY if task.recipe.search.instructions else reply)
    targets = list(_usable_targets(task))
    limits = [request_limits(target, longest) for target in targets]
    tokens = _greatest([limit.tokens for limit in limits])
    usd = _greatest([limit.usd(longest) for limit in limits])
    speed = seconds_per_request(task)
    return {
        "tokens": _times(requests, tokens),
        "tokens_about": _times(about, prompt + reply if tokens is None else min(prompt + reply, tokens)),
        "usd": _dollars(requests, usd),
        "usd_about": _dollars(about, _greatest([_likely_usd(limit, prompt, reply) for limit in limits])),
        "unpriced": [t.name for t, limit in zip(targets, limits, strict=True) if limit.prompt_usd is None],
        "seconds": None if speed is None or math.isinf(about) else round(about * speed, 1),
        "seconds_per_call": speed,
    }


def _usable_targets(task: Task) -> Iterator[Target]:
    """The targets that may be called: those in a used role, and their fallbacks."""
    targets, roles = task.runtime.targets, task.recipe.search.targets
    used = {"main", "judge", *roles, *(name for names in roles.values() for name in names)}
    for method in task.recipe.methods:
        used |= {*method.roles, *method.optional_roles}
    if task.recipe.search.instructions or task.recipe.search.optimizer != OWN_OPTIMIZER:
        used.add("teacher")
    used |= {str(v) for v in task.space.baseline().knobs.values() if v in targets}
    used_targets = {name: target for name, target in targets.items() if name in used}
    others = (
        other for target in used_targets.values() for other in task.runtime.gateway.fallbacks.get(target, ())
    )
    yield from dict.fromkeys((*used_targets.values(), *others))


def _likely_usd(limit: RequestLimits, prompt: int, reply: int) -> float | None:
    """Dollars of a request with `prompt` and `reply` tokens; None if a price is unknown."""
    if limit.prompt_usd is None or limit.reply_usd is None:
        return None
    return prompt * limit.prompt_usd + reply * limit.reply_usd


def _greatest(amounts: list[Any]) -> Any:
    """The greatest amount; None if any is unknown."""
    return None if None in amounts else max(amounts, default=0)


def _times(requests: float, each: int | None) -> int | None:
    return None if each is None or math.isinf(requests) else int(requests * each)


def _dollars(requests: float, each: float | None) -> float | None:
    if each == 0:
        return 0.0
    return None if each is None or math.isinf(requests) else round(requests * each, 2)
