"""Keeping DSPy's optimizers quiet: they print, log and draw bars of their own."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from tqdm import TMonitor  # type: ignore[import-untyped]

_LOGGERS = ("dspy", "gepa", "optuna")
_muted: ContextVar[bool] = ContextVar("ragc_muted", default=False)


class _Muted:
    """A text stream that drops what is written where `quiet` holds, or by the bars' own thread.

    Once `over`, it drops everything: only a bar that was never closed still writes to it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.over = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """The number of characters, written or dropped."""
        if self.over or _muted.get() or isinstance(threading.current_thread(), TMonitor):
            return len(text)
        return self._stream.write(text)


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what is printed in this context, and what DSPy, GEPA and Optuna log or warn of meanwhile.

    Threads that were started with a copy of the context are muted too; all others print as before.
    """
    streams = sys.stdout, sys.stderr
    muted = _Muted(streams[0]), _Muted(streams[1])
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    sys.stdout, sys.stderr = muted
    token = _muted.set(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _muted.reset(token)
        sys.stdout, sys.stderr = streams
        muted[0].over = muted[1].over = True
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
