"""Progress as bars on a terminal."""

from __future__ import annotations

from typing import Any

from ragc.core.display import decimals
from ragc.core.progress.console import rich_console, wrap
from ragc.core.text import visible

_ROOMY = 100
"""Minimum width in columns for a long bar with the remaining time."""


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
