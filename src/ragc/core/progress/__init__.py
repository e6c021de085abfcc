"""Progress of long work: the observer interface `Progress`, one-line notices, and who watches a question.

Silent by default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_told", default=None)


def notify(text: str) -> None:
    """Send one line to the listener of this context, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


def say(text: str) -> None:
    """As `notify`, and a warning of Python where nobody listens."""
    if _listener.get() is None:
        warnings.warn(text, stacklevel=2)
    else:
        notify(text)


@contextmanager
def listening(note: Callable[[str], None]) -> Iterator[None]:
    """Pass every notice sent inside the block to `note`."""
    token = _listener.set(note)
    try:
        yield
    finally:
        _listener.reset(token)


class Progress(Protocol):
    """Observer of phases, steps and finished trials. Its methods must be cheap."""

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """A phase called `name` begins; it has `total` steps of one `unit` each, None when unknown."""
        ...

    def step(self, n: int = 1) -> None:
        """`n` more steps of the current phase are done."""
        ...

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Trial `index` of `of` ended with `score`; `best` is the best so far, `what` describes it."""
        ...

    def download(self, done: int, total: int) -> None:
        """`done` of `total` bytes are downloaded."""
        ...

    def note(self, text: str) -> None:
        """Show one line permanently."""
        ...

    def close(self) -> None:
        """The work has ended."""
        ...


class Silent:
    """A Progress that ignores everything."""

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Ignored."""

    def step(self, n: int = 1) -> None:
        """Ignored."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Ignored."""

    def download(self, done: int, total: int) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""


SILENT = Silent()


class Watcher(Protocol):
    """Takes note of work that is no event of a trace. It raises nothing."""

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """The reranker `model` gave `passages` these `scores` for `query`, from `begun` (ns) until now."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ragc_watcher", default=None)
"""Who watches the question of this context."""
