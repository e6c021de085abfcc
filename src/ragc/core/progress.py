"""Progress of long work: the observer interface `Progress`, its displays on stderr, one-line notices.

Silent by default. A terminal and a notebook get one bar, redrawn in place; anything else gets few plain
lines; a caller may bring a display of its own.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any

from ragc.core.display import decimals
from ragc.core.text import visible
from ragc.errors import UsageError

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_told", default=None)


def notify(text: str) -> None:
    """Sends one line to the listener of this context, if there is one."""
    if listener := _listener.get():
        listener(text)


@contextmanager
def listening(note: Callable[[str], None]) -> Iterator[None]:
    """Passes every notice sent inside the block to `note`."""
    token = _listener.set(note)
    try:
        yield
    finally:
        _listener.reset(token)


class Progress:
    """Observer of phases, steps and finished trials, which ignores what it does not override.

    Its methods must be cheap; any thread may call them.

        class Percent(ragc.Progress):
            def phase(self, name, total, unit="questions"):
                self.done, self.total = 0, total

            def step(self, n=1):
                self.done += n
                print(f"{self.done / self.total:.0%}")
    """

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Begins a phase called `name` with `total` steps of one `unit` each, None when unknown."""

    def step(self, n: int = 1) -> None:
        """Reports that `n` more steps of the current phase are done."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Reports that trial `index` of `of`, `what`, ended with `score`; `best` is the best so far."""

    def download(self, done: int, total: int) -> None:
        """Reports that `done` of `total` bytes are downloaded."""

    def note(self, text: str) -> None:
        """Shows one line permanently."""

    def close(self) -> None:
        """Reports that the work has ended."""


class Silent(Progress):
    """A Progress that ignores everything."""


SILENT = Silent()


class Lines(Progress):
    """Progress as plain lines, on stderr or given to `write`: phases, trials and notes.

    Within a phase one line each ten seconds says how far it is.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._began = self._said = time.monotonic()
        self._write = write or self._log
        self._name, self._unit, self._done, self._total = "", "", 0, ""

    def _log(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a failed display must not end the work
            sys.stderr.write(f"[{time.monotonic() - self._began:6.1f}s] {visible(text)}\n")

    def note(self, text: str) -> None:
        """Shows one line."""
        self._said = time.monotonic()
        self._write(text)

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Shows one line."""
        self._name, self._unit, self._done = name, unit, 0
        self._total = "" if total is None else f" of {total:,}"
        self.note(
            name if total is None else f"{name}: {total:,} {unit.removesuffix('s') if total == 1 else unit}"
        )

    def step(self, n: int = 1) -> None:
        """Shows a line if there was none for a while."""
        self._done += n
        if time.monotonic() - self._said >= 10:
            self.note(f"{self._name}: {self._done:,}{self._total}")

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Shows one line."""
        self.note(f"trial {index}/{of}  {decimals(score)}  best {decimals(best)}  {what}")

    def download(self, done: int, total: int) -> None:
        """Shows MiB in a phase of its own."""
        if self._unit != "MiB":
            self.phase("downloading", total >> 20, "MiB")
        self.step((done >> 20) - self._done)


class Bar(Lines):
    """Progress as one bar of tqdm on stderr (a widget in a notebook that has them), with lines above it."""

    def __init__(self) -> None:
        super().__init__(self._print_above)
        self._tqdm = _quiet_tqdm()
        self._bar = self._tqdm(disable=True)

    def _print_above(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._tqdm.write(visible(text), file=_stream())

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Draws a new bar."""
        self.close()
        self._unit, self._done = unit, 0
        self._bar = self._tqdm(
            total=total, desc=visible(name), unit=f" {unit}", file=_stream(), leave=False, dynamic_ncols=True
        )

    def step(self, n: int = 1) -> None:
        """Moves the bar on."""
        self._done += n
        self._bar.update(n)

    def close(self) -> None:
        """Removes the bar; a further phase draws a new one."""
        self._bar.close()


def _stream() -> Any:
    """Returns stderr as it is: the command line escapes what others write to it, and a bar's returns too."""
    return getattr(sys.stderr, "plain_stream", sys.stderr)


@cache
def _quiet_tqdm() -> Any:
    """Returns tqdm's bar for where this process runs, without its monitor thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a line, and that is well
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

    class QuietBar(tqdm):  # type: ignore[misc, unused-ignore]
        monitor_interval = 0

    return QuietBar


Display = bool | Callable[[str], None] | Progress | None
"""What callers may ask for: `showing` says what each means."""


@contextmanager
def showing(display: Display) -> Iterator[Progress]:
    """Opens the display that a caller asks for, until exit.

    True is that of the command line: a bar on a terminal or in a notebook, elsewhere plain lines. False is
    none. None is a bar on a terminal or in a notebook, and else none. A function gets each line of text. A
    Progress is used as it is. Raises UsageError for anything else.
    """
    if display is True or (display is None and _is_live()):
        ours = Bar() if _is_live() else Lines()
        try:
            yield ours
        finally:
            ours.close()
    elif display is None or display is False:
        yield SILENT
    elif all(callable(getattr(display, name, None)) for name in vars(Progress) if not name.startswith("_")):
        yield display  # type: ignore[misc]
    elif callable(display):
        yield Lines(display)
    else:
        raise UsageError(
            f"progress is True, False, None, a function that takes a line of text, or a Progress, found "
            f"{display!r}; pass one of these."
        )


def _is_live() -> bool:
    """Returns whether stderr is a terminal, or this process the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or type(shell).__name__ == "ZMQInteractiveShell"
