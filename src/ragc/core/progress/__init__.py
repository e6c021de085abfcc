"""Progress of long work: the observer interface `Progress`, its displays on stderr, one-line notices.

Silent by default. On a terminal it is drawn as `bars`, elsewhere as lines, or by the caller's own display. A
`Watcher` observes the work of one question.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

from ragc.core.display import decimals
from ragc.errors import UsageError

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_told", default=None)


def notify(text: str) -> None:
    """Sends one line to the listener of this context, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


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


class Lines:
    """Progress as plain lines, on stderr or given to `write`."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._started = time.monotonic()
        self._half = -1
        self._write = write

    def _say(self, text: str) -> None:
        if self._write is not None:
            self._write(text)
            return
        with suppress(OSError):  # a failed display must not end the work
            sys.stderr.write(f"[{time.monotonic() - self._started:6.1f}s] {text}\n")
            sys.stderr.flush()

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Prints one line."""
        self._say(name if total is None else f"{name}: {total:,} {unit[:-1] if total == 1 else unit}")

    def step(self, n: int = 1) -> None:
        """Prints nothing."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Prints one line."""
        self._say(f"trial {index}/{of}  {decimals(score)}  best {decimals(best)}  {what}")

    def download(self, done: int, total: int) -> None:
        """Prints one line at the beginning, the middle and the end."""
        half = 2 * done // max(total, 1)
        if half > self._half:
            self._half = half
            self._say(f"downloaded {done >> 20} of {total >> 20} MiB")

    def note(self, text: str) -> None:
        """Prints one line."""
        self._say(text)

    def close(self) -> None:
        """Does nothing."""


@contextmanager
def watching() -> Iterator[Progress]:
    """Opens a display with bars on a terminal; elsewhere with one line per finished trial or phase."""
    if sys.stderr.isatty():
        from ragc.core.progress.bars import Bars

        display: Progress = Bars()
    else:
        display = Lines()
    try:
        yield display
    finally:
        display.close()


Display = bool | Callable[[str], None] | Progress | None
"""What callers may ask for: `showing` says what each means."""


@contextmanager
def showing(display: Display) -> Iterator[Progress]:
    """Opens the display that a caller asks for, until exit.

    True is that of the command line, and False none. None is that of the command line if stderr is a
    terminal, or in a notebook. A function gets each line of text. A Progress is used as it is. Raises
    UsageError for anything else.
    """
    if display is None:
        display = sys.stderr.isatty() or _in_notebook()
    if display is True:
        with watching() as bars_or_lines:
            yield bars_or_lines
    elif display is False:
        yield Silent()
    elif all(callable(getattr(display, name, None)) for name in _METHODS):
        yield display  # type: ignore[misc]
    elif callable(display):
        yield Lines(display)
    else:
        raise UsageError(
            f"progress is True, False, None, a function that takes a line of text, or a Progress, found "
            f"{display!r}; pass one of these."
        )


_METHODS = ("phase", "step", "trial", "download", "note", "close")


def _in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Watcher(Protocol):
    """Observes work that is no event of a trace. It raises nothing."""

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """Reports the `scores` of `passages` for `query` by `model`, from `begun` (ns) until now."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ragc_watcher", default=None)
"""Who watches the question of this context."""
