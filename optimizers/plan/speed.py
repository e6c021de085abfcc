"""The last measured duration of a request to the same targets on this machine.

$RAGC_HOME/speeds.json    {digest of the targets and the concurrency: {"seconds": ..., "requests": ...}}
"""

from __future__ import annotations

import json
import os
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
    if sent < LEAST or sent < replayed or not task.recipe.study.keep:
        return
    path = _path()
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        speeds = _read() | {_key(task): {"seconds": round(seconds, 3), "requests": int(sent)}}
        write_private(fresh, pretty(speeds))
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
