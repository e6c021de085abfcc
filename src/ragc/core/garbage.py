"""Settings of the garbage collector while questions are answered."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000
"""Allocations between two collections; Python's default is 700."""

_lock = threading.Lock()
_inside = 0
_usual = (0, 0, 0)
_ours = False


@contextmanager
def frozen_gc() -> Iterator[None]:
    """Freezes existing objects (libraries, corpora, indexes) inside the block.

    The garbage collector would otherwise scan them every few hundred questions. Thread-safe and reentrant:
    the last thread to leave restores the previous state.
    """
    global _inside, _usual, _ours  # noqa: PLW0603 - a process has one collector
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if _usual[0]:  # the caller may have switched the collector off
                gc.set_threshold(max(YOUNG, _usual[0]), *_usual[1:])
            _ours = not gc.get_freeze_count()  # a heap frozen by the caller stays frozen
        _inside += 1
        if _ours:
            gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_usual)
                if _ours:
                    gc.unfreeze()
