"""Counters: what a question, a trial or a run has cost so far."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_OF_THE_STORE = ("sent", "replayed", "memo")
_lock = threading.Lock()


@dataclass(slots=True)
class Counters:
    """Amounts that only grow.

    `lm_calls`, the token counts, `usd` and `searches` count every call, replayed or not, and so
    are the same when a run is repeated. `sent` and `replayed` split the calls by where the reply
    came from. `repairs` counts second calls after a reply that did not parse, `truncated` replies
    cut by the token limit, `mended` values of replies that were not written as asked for and were read as
    what they mean, `trimmed` passages left out because they did not fit the context,
    `failed_searches` searches that could not be made and gave nothing, `dropped` parts of typed
    outputs that speak of something that is not there (an unknown id, words that are not in the text), or do
    not fit where others of their list do.
    `fallbacks` counts calls that another target answered because the one asked was not available.
    `memo` counts typed calls that were replayed whole, without a prompt being formatted.
    """

    lm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    searches: int = 0
    repairs: int = 0
    mended: int = 0
    truncated: int = 0
    trimmed: int = 0
    failed_searches: int = 0
    dropped: int = 0
    fallbacks: int = 0
    sent: int = 0
    replayed: int = 0
    memo: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, **amounts: float) -> None:
        """Add `amounts` to the fields they name."""
        for name, amount in amounts.items():
            if amount:
                setattr(self, name, getattr(self, name) + amount)

    def merge(self, other: Counters) -> None:
        """Add all of `other`."""
        self.add(**other.to_json())

    def to_json(self) -> dict[str, float]:
        """Every amount by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def invariant(self) -> dict[str, float]:
        """The amounts that do not depend on what the store already held."""
        return {name: n for name, n in self.to_json().items() if name not in _OF_THE_STORE}


current: ContextVar[tuple[Counters, ...]] = ContextVar("ragc_counters", default=())
"""The counters that calls made in this context are charged to, outermost first."""


def count(**amounts: float) -> None:
    """Add `amounts` to every counter of the present context; safe in any thread."""
    with _lock:
        for counters in current.get():
            counters.add(**amounts)


@contextmanager
def counting(counters: Counters) -> Iterator[Counters]:
    """Charge every call made inside to `counters` too."""
    token = current.set((*current.get(), counters))
    try:
        yield counters
    finally:
        current.reset(token)
