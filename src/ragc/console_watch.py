"""Progress as people see it: bars on a terminal, lines elsewhere; both on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragc.progress import Progress
from ragc.terminal import rich_console, visible


@contextmanager
def watching() -> Iterator[Progress]:
    """Bars on a terminal; elsewhere one line a finished trial or phase."""
    watcher: Progress = Bars() if sys.stderr.isatty() else Lines()
    try:
        yield watcher
    finally:
        watcher.close()


class Lines:
    """Progress as plain lines on stderr."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._tenth = -1

    def _say(self, text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started:6.1f}s] {text}\n")
        sys.stderr.flush()

    def phase(self, name: str, total: int | None) -> None:
        """One line as the phase begins."""
        self._say(name if total is None else f"{name}: {total} questions")

    def step(self, n: int = 1) -> None:
        """Nothing is said of single steps."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """One line as the trial ends."""
        self._say(f"trial {index}/{of}  {score:.3f}  best {best:.3f}  {what}")

    def download(self, done: int, total: int) -> None:
        """One line at each tenth."""
        tenth = 10 * done // max(total, 1)
        if tenth != self._tenth:
            self._tenth = tenth
            self._say(f"downloaded {done >> 20} of {total >> 20} MiB")

    def note(self, text: str) -> None:
        """One line."""
        self._say(text)

    def close(self) -> None:
        """Nothing to put away."""


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

        self._console = rich_console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._live = Live(*columns, console=self._console, transient=True)
        self._task: Any = None
        self._best = ""
        self._live.start()

    def phase(self, name: str, total: int | None) -> None:
        """A new bar replaces the last one."""
        if self._task is not None:
            self._live.remove_task(self._task)
        self._task = self._live.add_task(visible(f"{name}{self._best}"), total=total)

    def step(self, n: int = 1) -> None:
        """The bar advances."""
        if self._task is not None:
            self._live.advance(self._task, n)

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """A line above the bar."""
        self._best = f"  best {best:.3f}"
        self._console.print(f"trial {index:>3}/{of}  {score:.3f}  best {best:.3f}  {what}", highlight=False)

    def download(self, done: int, total: int) -> None:
        """The bar counts MiB."""
        if self._task is not None:
            self._live.update(self._task, total=total >> 20, completed=done >> 20)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, highlight=False)

    def close(self) -> None:
        """The bar goes away."""
        self._live.stop()
