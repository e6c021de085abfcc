"""Counters: calls, tokens, dollars and searches of a question, a trial or a run; seconds of a question."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

IF_ANY = ("thinking_tokens", "ungated", "filtered", "too_long", "failed")
"""The counters that JSON has only if there are any."""

_lock = threading.Lock()


@dataclass(slots=True)
class Counters:
    """Amounts that only grow.

    `lm_calls`, the token counts, `usd` and `searches` count every call, replayed or not. They are the same
    when a run is repeated. The others:

        sent, replayed      calls answered by the target, and from the call store
        repairs             second calls after a reply that did not parse
        truncated           replies cut by the token limit
        mended              values in replies that broke the format and were read by their meaning
        trimmed             passages left out because they did not fit the context
        failed_searches     searches that failed and returned nothing
        dropped             parts of typed outputs that were discarded: unknown ids, quotes that are not
                            in the text, list items that do not fit the other items
        fallbacks           calls answered by a fallback target

    JSON has the following only if there are any. `thinking_tokens` are those of `completion_tokens` that were
    thoughts of a model. The others are questions without an answer: `filtered` by the server, `too_long` for
    the context, or `failed` by their requests in another way. `ungated` calls are of an LM that a module
    calls by itself, past store and budget.
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
    thinking_tokens: int = 0
    ungated: int = 0
    filtered: int = 0
    too_long: int = 0
    failed: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, **amounts: float) -> None:
        """Adds `amounts` to the fields of those names."""
        for name, amount in amounts.items():
            if amount:
                setattr(self, name, getattr(self, name) + amount)

    def merge(self, other: Counters) -> None:
        """Adds all amounts of `other`."""
        self.add(**other.to_json())

    def to_json(self) -> dict[str, float]:
        """Returns every amount by name; those of `IF_ANY` only if there are any."""
        return {name: n for name in self.__slots__ if (n := getattr(self, name)) or name not in IF_ANY}

    def invariant(self) -> dict[str, float]:
        """Returns the amounts that do not depend on the previous content of the call store.

        Dollars are rounded: their last digits depend on the order in which calls at the same time ended.
        """
        return {n: v for n, v in self.to_json().items() if n not in ("sent", "replayed")} | {
            "usd": round(self.usd, 12)
        }


current: ContextVar[tuple[Counters, ...]] = ContextVar("ragc_counters", default=())
"""The counters charged with calls in this context, outermost first."""


def count(**amounts: float) -> None:
    """Adds `amounts` to every counter of the current context. Thread-safe."""
    with _lock:
        for counters in current.get():
            counters.add(**amounts)


@contextmanager
def counting(counters: Counters) -> Iterator[Counters]:
    """Charges every call made inside the block to `counters`, in addition to the outer counters."""
    token = current.set((*current.get(), counters))
    try:
        yield counters
    finally:
        current.reset(token)


passed: ContextVar[list[float] | None] = ContextVar("ragc_passed", default=None)
"""The seconds that requests of the question, or of the branch of it, took when they were sent and not now."""
