"""What requests to the same targets took on this machine when they were last measured: time and tokens.

$RAGC_HOME/speeds.json    {digest of the targets and the concurrency: {"seconds": ..., "requests": ...},
                           digest of the recipe: {"calls": ..., "longer": ..., "used": {target: [...]}}}

`used` are tokens of prompts, of replies, and of prompts read from a cache; a call costs `longer` times their
mean. Dollars are not kept: a price may change between two runs, and is applied when one is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.core.digest import digest, pretty
from ragc.core.home.private import write_private
from ragc.core.paths import cache_home
from ragc.targets.base import Usage
from ragc.targets.token_price import price_of
from ragc.task.base import Task
from ragc.task.spare import longer

LEAST = 5
"""The least number of sent requests for a measurement. A run with more replayed than sent requests is not
used.
"""


def seconds_per_request(task: Task) -> float | None:
    """Seconds a request of `task`, at its concurrency, as last measured; None if never measured."""
    try:
        entry = _read()[_key(task)]
        return round(float(entry["seconds"]) / int(entry["requests"]), 4)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def note_speed(task: Task, *, sent: float, replayed: float, seconds: float) -> None:
    """Records that `sent` requests took `seconds`; a file that cannot be written is ignored."""
    if sent >= LEAST and sent >= replayed:
        _note(task, _key(task), {"seconds": round(seconds, 3), "requests": int(sent)})


@dataclass(frozen=True, slots=True)
class CallCost:
    """The mean cost of an LM call: tokens of prompt and reply, and dollars; `usd` None without a price."""

    tokens: float
    usd: float | None


def cost_per_call(task: Task) -> CallCost | None:
    """The cost of an LM call of this recipe: tokens as last measured, by the present prices of its targets.

    None if never measured.
    """
    try:
        entry = _read()[_recipe_key(task)]
        calls = int(entry["calls"])
        used = {str(name): Usage(*map(int, amounts)) for name, amounts in entry["used"].items()}
        return _mean(task, calls / float(entry["longer"]), used)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError):
        return None


def cost_so_far(task: Task) -> CallCost | None:
    """The cost of an LM call that this process made for `task`, replayed ones too; None before the first."""
    gateway = task.runtime.gateway
    calls = gateway.sent + gateway.replayed
    return _mean(task, calls, gateway.used) if calls else None


def _mean(task: Task, calls: float, used: Mapping[str, Usage]) -> CallCost:
    """The mean cost of `calls` calls that took the tokens `used`, by target, at present prices."""
    tokens = sum(usage.prompt + usage.completion for usage in used.values()) / calls
    prices = {target.identity: price_of(target) for target in task.runtime.targets.values()}
    usd = 0.0
    for name, usage in used.items():
        price = prices.get(name)
        if price is None:
            return CallCost(tokens, None)
        usd += price.usd(usage)
    return CallCost(tokens, usd / calls)


def note_cost(task: Task, *, whole: bool = True) -> None:
    """Records what the LM calls that this process made for `task` took, replayed ones too.

    Unless they are `whole`, they are those of the baseline of a study, whose other calls take longer.
    """
    gateway = task.runtime.gateway
    calls = gateway.sent + gateway.replayed
    if calls >= LEAST:
        used = {name: [usage.prompt, usage.completion, usage.cached] for name, usage in gateway.used.items()}
        _note(
            task, _recipe_key(task), {"calls": calls, "longer": 1.0 if whole else longer(task), "used": used}
        )


def _note(task: Task, key: str, entry: Mapping[str, object]) -> None:
    if not task.recipe.study.keep:
        return
    path = _path()
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        write_private(fresh, pretty(_read() | {key: dict(entry)}))
        fresh.replace(path)


def _path() -> Path:
    return cache_home() / "speeds.json"


def _read() -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        speeds = json.loads(_path().read_bytes())
        return speeds if isinstance(speeds, dict) else {}
    return {}


def _key(task: Task) -> str:
    answering = sorted((role, target.identity) for role, target in task.runtime.targets.items())
    return digest([answering, task.in_flight])[:16]


def _recipe_key(task: Task) -> str:
    answering = sorted((role, target.identity) for role, target in task.runtime.targets.items())
    return digest([answering, task.recipe.identity()])[:16]
