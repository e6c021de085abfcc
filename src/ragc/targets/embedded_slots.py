"""Which slot of llama.cpp answers which request, so that equal beginnings are computed once for all slots.

llama.cpp keeps the last prompt of a slot and continues from what a new one shares with it, but each slot
computes a beginning for itself. Here the first request with a long beginning (all messages but the last:
instructions and demonstrations) goes alone, its slot's state is written to a file, and any other slot
reads it back, which takes milliseconds where computing took seconds. `benchmarks/embedded.py` measures it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

LONG = 1000
"""Characters from which on a beginning is worth a file: about 250 tokens."""

MOST_BYTES = 1 << 30
"""The most that the files of one model may take; those used least recently go first."""

Message = Mapping[str, str]
Transfer = Callable[[int, str], bool]


class Slots:
    """`count` slots, taken and given back by threads.

    `save` writes the state of a slot to a file by its name and says whether it did; `restore` reads it.
    """

    def __init__(
        self, count: int, save: Callable[[int, str], bool], restore: Callable[[int, str], bool]
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ragc-slots-"))
        self._save, self._restore = save, restore
        self._free: list[int] = list(range(count))  # the one that was used least recently first
        self._held: dict[int, str] = {}
        self._files: OrderedDict[str, int] = OrderedDict()
        self._first: set[str] = set()  # beginnings that are being computed for the first time
        self._writes = True
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, messages: Sequence[Message], given_up: Callable[[], bool]) -> Iterator[int | None]:
        """A slot for a prompt of `messages`, holding their beginning if it is known; None once `given_up`."""
        mark, size = _beginning(messages)
        slot = self._take(mark, size >= LONG, given_up)
        if slot is None:
            yield None
            return
        whole = False
        try:
            if self._held.get(slot) != mark and mark in self._files:
                self._restore(slot, mark)
            self._held[slot] = mark
            yield slot
            whole = True
        finally:
            if mark in self._first and whole and not given_up():
                self._keep(slot, mark)
            with self._changed:
                self._first.discard(mark)
                self._free.append(slot)
                self._changed.notify_all()

    def _take(self, mark: str, long: bool, given_up: Callable[[], bool]) -> int | None:
        with self._changed:
            while not given_up():
                known = not (long and self._writes) or mark in self._files
                if self._free and (known or mark not in self._first):
                    slot = next((s for s in self._free if self._held.get(s) == mark), self._free[0])
                    self._free.remove(slot)
                    if known:
                        with suppress(KeyError):
                            self._files.move_to_end(mark)
                    else:
                        self._first.add(mark)
                    return slot
                self._changed.wait(0.1)
        return None

    def _keep(self, slot: int, mark: str) -> None:
        """Write the state; when that fails, the disk may be full, nothing waits for files any more."""
        self._writes = self._save(slot, mark)
        with self._changed, suppress(OSError):
            self._files[mark] = (self.folder / mark).stat().st_size
            while sum(self._files.values()) > MOST_BYTES:
                oldest, _ = self._files.popitem(last=False)
                (self.folder / oldest).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _beginning(messages: Sequence[Message]) -> tuple[str, int]:
    """A file name for all of `messages` but the last, and their length in characters."""
    digest, size = hashlib.sha256(), 0
    for message in messages[:-1]:
        for part in (message["role"], message["content"]):
            data = part.encode("utf-8", "replace")
            digest.update(len(data).to_bytes(8, "big") + data)
            size += len(part)
    return digest.hexdigest()[:32] + ".state", size
