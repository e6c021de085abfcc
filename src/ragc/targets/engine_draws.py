"""The draws of one call of DSPy's, which asks an engine for one after another and does not number them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from ragc.targets.base import ChatRequest, Reply

Complete = Callable[[ChatRequest], Coroutine[Any, Any, Reply]]

_BITS = 10
"""Draws that one rollout has room for, as a power of two."""


@dataclass(slots=True)
class Numbered:
    """The numbers of one call's draws, how many are `left` to come, and the replies to those asked ahead."""

    number: int
    left: int
    ahead: dict[int, tuple[ChatRequest, Reply]] = field(default_factory=dict)

    def next(self) -> int:
        """The number of the next draw."""
        self.number, self.left = self.number + 1, self.left - 1
        return self.number - 1


_draws: ContextVar[Numbered | None] = ContextVar("ragc_draws", default=None)


@contextmanager
def numbered(kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Sample indices for the draws of one call: 0, 1, …, or from 1024 times the rollout id."""
    token = _draws.set(Numbered((kwargs.get("rollout_id") or 0) << _BITS, kwargs.get("n") or 1))
    try:
        yield
    finally:
        _draws.reset(token)


def next_draw() -> int:
    """The number of this context's next draw; 0 where none are numbered."""
    draws = _draws.get()
    return 0 if draws is None else draws.next()


async def together(complete: Complete, asked: ChatRequest, *, several: bool) -> Reply:
    """The reply to `asked`, the draw that `next_draw` numbered last.

    With `several`, the draws that will follow are asked for at once with it, and kept until their turn.
    """
    draws = _draws.get()
    if draws is None or not several or asked.sampling.temperature == 0:
        return await complete(asked)
    known = draws.ahead.pop(asked.sample, None)
    if known is not None and known[0] == asked:
        return known[1]
    requests = [replace(asked, sample=asked.sample + i) for i in range(1 + max(0, draws.left))]
    first, *others = await asyncio.gather(*map(complete, requests))
    draws.ahead = {one.sample: (one, reply) for one, reply in zip(requests[1:], others, strict=True)}
    return first
