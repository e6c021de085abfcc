"""What long work tells whoever watches; the silent watcher is the default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_told", default=None)


def notify(text: str) -> None:
    """Tell one line to whoever listens in this context; nobody does by default."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


@contextmanager
def listening(note: Callable[[str], None]) -> Iterator[None]:
    """Let `note` hear what is told inside."""
    token = _listener.set(note)
    try:
        yield
    finally:
        _listener.reset(token)


class Progress(Protocol):
    """Told of phases, of single steps in them, and of finished trials. Calls must be cheap."""

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Work called `name` begins; it has `total` steps, each one of `unit`, None when unknown."""
        ...

    def step(self, n: int = 1) -> None:
        """`n` more steps of the present phase are done."""
        ...

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Trial `index` of `of` ended with `score`; `best` is the best so far, `what` describes it."""
        ...

    def download(self, done: int, total: int) -> None:
        """`done` of `total` bytes have come."""
        ...

    def note(self, text: str) -> None:
        """One line worth keeping."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class Silent:
    """A watcher that ignores everything."""

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
