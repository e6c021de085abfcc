"""What requests to the same targets took on this machine when they were last measured: time, tokens, dollars.

$RAGC_HOME/speeds.json    {digest of the targets and the concurrency: {"seconds": ..., "requests": ...},
                           digest of the recipe: {"calls": ..., "tokens": ..., "usd": ...}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragc.core.digest import digest, pretty
from ragc.core.home.private import write_private
from ragc.core.paths import cache_home
from ragc.optimizers.task import Task

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


def cost_per_call(task: Task) -> Mapping[str, float] | None:
    """Tokens and dollars of an LM call of this recipe, as last measured; None if never measured."""
    try:
        entry = _read()[_recipe_key(task)]
        return {what: float(entry[what]) / int(entry["calls"]) for what in ("tokens", "usd")}
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def note_cost(task: Task, *, calls: float, tokens: float, usd: float) -> None:
    """Records what `calls` LM calls of this recipe cost, replayed ones too."""
    if calls >= LEAST:
        _note(task, _recipe_key(task), {"calls": int(calls), "tokens": int(tokens), "usd": usd})


def _note(task: Task, key: str, entry: Mapping[str, float]) -> None:
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
