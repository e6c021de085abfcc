"""Progress display on stderr: bars on a terminal, lines elsewhere, or the caller's display."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ragc.core.display import decimals
from ragc.core.progress import Progress, Silent
from ragc.core.progress.console import rich_console, wrap
from ragc.core.text import visible
from ragc.errors import UsageError

_ROOMY = 100
"""Minimum width in columns for a long bar with the remaining time."""


@contextmanager
def watching() -> Iterator[Progress]:
    """Opens a display with bars on a terminal; elsewhere with one line per finished trial or phase."""
    watcher: Progress = Bars() if sys.stderr.isatty() else Lines()
    try:
        yield watcher
    finally:
        watcher.close()


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
        with watching() as watcher:
            yield watcher
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


class Bars:
    """Progress as one live bar on stderr, with finished trials above it."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Live

        self._console = rich_console(stderr=True, highlight=False)
        wide = self._console.width >= _ROOMY
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24 if wide else 10),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            *((TimeRemainingColumn(),) if wide else ()),
        )
        self._live = Live(*columns, console=self._console, transient=True)
        self._task: Any = None
        self._best = self._name = ""
        self._live.start()

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Replaces the bar."""
        if self._task is not None:
            self._live.remove_task(self._task)
        self._name = visible(f"{name}{self._best}")
        self._task = self._live.add_task(self._name, total=total)

    def step(self, n: int = 1) -> None:
        """Advances the bar."""
        if self._task is not None:
            self._live.advance(self._task, n)

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Prints a line above the bar."""
        self._best = f"  best {decimals(best)}"
        self._above(f"trial {index:>3}/{of}  {decimals(score)}  best {decimals(best)}  {what}")

    def download(self, done: int, total: int) -> None:
        """Shows MiB on the bar until the download is complete."""
        if self._task is None:
            return
        if done >= total:
            self._live.update(self._task, description=self._name, total=None, completed=0)
        else:
            held, size = done >> 20, total >> 20
            self._live.update(self._task, description="downloading, MiB", total=size, completed=held)

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        self._above(text)

    def _above(self, text: str) -> None:
        """Prints `text` above the bar, on lines that fit the terminal."""
        for line in wrap(text, self._console.width):
            self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        """Removes the bar."""
        self._live.stop()
