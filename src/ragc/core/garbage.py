"""The garbage collector while questions are answered."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000
"""Objects made before the collector looks at them; Python's own default is 700."""

_lock = threading.Lock()
_inside = 0
_usual = (0, 0, 0)
_ours = False


@contextmanager
def frozen_gc() -> Iterator[None]:
    """While inside, the collector leaves alone what is there already: the libraries, corpora and indexes.

    Else it walks through all of them every few hundred questions.
    Any number of threads may be inside; when the last one leaves, all is as it was before.
    """
    global _inside, _usual, _ours  # noqa: PLW0603 - a process has one collector
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if _usual[0]:  # else whoever called has switched it off
                gc.set_threshold(max(YOUNG, _usual[0]), *_usual[1:])
            _ours = not gc.get_freeze_count()  # else whoever froze it would not have it thawed
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
