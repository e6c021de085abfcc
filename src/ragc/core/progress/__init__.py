"""Progress of long work: the observer interface `Progress`, one-line notices, and watchers of a question.

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
    """Sends one line to the listener of this context, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


def say(text: str) -> None:
    """Notifies as `notify` does; emits a Python warning if nothing listens."""
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
        """Begins a phase called `name` with `total` steps of one `unit` each, None when unknown."""
        ...

    def step(self, n: int = 1) -> None:
        """Reports that `n` more steps of the current phase are done."""
        ...

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Reports that trial `index` of `of`, `what`, ended with `score`; `best` is the best so far."""
        ...

    def download(self, done: int, total: int) -> None:
        """Reports that `done` of `total` bytes are downloaded."""
        ...

    def note(self, text: str) -> None:
        """Shows one line permanently."""
        ...

    def close(self) -> None:
        """Reports that the work has ended."""
        ...


class Silent:
    """A Progress that ignores everything."""

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Does nothing."""

    def step(self, n: int = 1) -> None:
        """Does nothing."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Does nothing."""

    def download(self, done: int, total: int) -> None:
        """Does nothing."""

    def note(self, text: str) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


SILENT = Silent()


class Watcher(Protocol):
    """Observes work that is no event of a trace. It raises nothing."""

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """Reports the `scores` of `passages` for `query` by `model`, from `begun` (ns) until now."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ragc_watcher", default=None)
"""Who watches the question of this context."""
