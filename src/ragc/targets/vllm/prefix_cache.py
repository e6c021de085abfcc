"""Prefix-cache statistics from vLLM's own counters.

The counters cover all requests to a server, so a difference belongs to one run only while the server has no
other clients. A server without counters reports nothing.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from ragc.core.http.bounded import fetch

LOOKED_UP, CACHED = "prefix_tokens", "prefix_cached_tokens"

_LINE = re.compile(r"^vllm:prefix_cache_(queries|hits)(?:_total)?(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
_TIMEOUT_S = 5.0


def read(text: str) -> dict[str, float]:
    """Returns prompt tokens looked up and found in the prefix cache, over all engines; {} without counters.

    `text` is a page of Prometheus metrics.
    """
    totals: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        key = LOOKED_UP if name == "queries" else CACHED
        try:
            amount = float(value)
        except ValueError:
            continue
        if not 0 <= amount < math.inf:
            continue
        totals[key] = totals.get(key, 0.0) + amount
    return totals if totals.keys() == {LOOKED_UP, CACHED} else {}


async def prefix_tokens(targets: Iterable[Any]) -> dict[str, float]:
    """Returns `read` summed over the servers behind `targets`, each once; a failing server counts nothing."""
    urls = {url for target in targets if (url := getattr(target, "metrics_url", ""))}
    total: dict[str, float] = {}
    for counts in await asyncio.gather(*map(_fetch_counts, sorted(urls))):
        for name, value in counts.items():
            total[name] = total.get(name, 0.0) + value
    return total


def increase(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Returns the difference of two readings; {} without a second one, all of it if a server restarted."""
    begun_anew = any(after[name] < before.get(name, 0.0) for name in after)
    return {name: value - (0.0 if begun_anew else before.get(name, 0.0)) for name, value in after.items()}


async def _fetch_counts(url: str) -> dict[str, float]:
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
            response = await fetch(client, url)
    except (httpx.HTTPError, httpx.InvalidURL):
        return {}
    return read(response.text) if response.status_code == 200 else {}
