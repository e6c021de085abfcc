"""Assigns requests to llama.cpp's slots so that a shared prompt prefix is computed once for all slots.

llama.cpp remembers the last prompt of each slot and reuses the prefix that a new prompt shares with it, but
each slot computes a prefix for itself. Here a long prefix (all messages but the last: instructions and
demonstrations) is computed alone, before the first request with it. The slot's state is written to a file
that any other slot restores, which takes milliseconds instead of seconds. `prefix_states` stores the file for
later processes. As the prefix is always computed alone, its state, and so the reply, does not depend on which
process computed it. `experiments/benchmarks/serving/beginnings.py` measures it.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from ragc.targets.embedded.prefix_states import PrefixStates

MIN_SAVED_CHARS = 1000
"""Minimum length in characters of a prefix that is saved to a file: about 250 tokens."""

MIN_MATCHING_SHARE = 0.1
"""Minimum share of a prompt that a slot's last prompt must match to be reused."""

MOST_BYTES = 1 << 30
"""Maximum size of the files of one model; the least recently used are deleted first."""

Message = Mapping[str, str]


class SlotEngine(Protocol):
    """The interface of llama.cpp for slots. File names are relative to `Slots.folder`."""

    def prefix(self, messages: Sequence[Message]) -> tuple[str, Sequence[int]]:
        """Returns the key and the tokens before the last message's content; no tokens if they are unknown."""
        ...

    def compute(self, slot: int, tokens: Sequence[int]) -> int | None:
        """Computes the state after `tokens` in `slot`; returns their number, or None if that failed."""
        ...

    def save(self, slot: int, name: str) -> bool:
        """Writes the state of `slot` to the file `name`; returns whether it succeeded."""
        ...

    def restore(self, slot: int, name: str) -> int | None:
        """Reads the state of `slot` from the file `name`; returns its tokens, or None if that failed."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """A slot, and how many tokens of the prompt's prefix were computed in advance."""

    slot: int
    computed: int = 0


class Slots:
    """`count` slots of `engine`, acquired and released by threads.

    `states` stores the states of prefixes for later processes; None stores nothing.
    """

    def __init__(self, count: int, engine: SlotEngine, states: PrefixStates | None) -> None:
        self.folder, self._lock = _own_folder()
        self._engine, self._states = engine, states
        self._free: list[int] = list(range(count))  # least recently used first
        self._held: dict[int, str] = {}  # the last prompt of each slot
        self._files: OrderedDict[str, int] = OrderedDict()
        self._first: set[str] = set()  # prefixes being computed for the first time
        self._writes = True
        self._changed = threading.Condition()

    @contextmanager
    def acquire(self, messages: Sequence[Message], given_up: Callable[[], bool]) -> Iterator[Lease | None]:
        """Holds a slot for a prompt of `messages`, with their saved prefix restored; None once `given_up`."""
        beginning, text = _text(messages[:-1]), _text(messages)
        mark = hashlib.sha256(beginning.encode("utf-8", "replace")).hexdigest()[:32] + ".state"
        slot = self._take(mark, beginning, text, given_up)
        if slot is None:
            yield None
            return
        computed = 0
        try:
            if mark in self._first:
                self._held.pop(slot, None)
                computed = self._prepare(slot, mark, messages)
            elif mark in self._files and not self._held.get(slot, "").startswith(beginning):
                self._engine.restore(slot, mark)
            self._held[slot] = text
            yield Lease(slot, computed)
        finally:
            with self._changed:
                self._free.append(slot)
                self._changed.notify_all()

    def _prepare(self, slot: int, mark: str, messages: Sequence[Message]) -> int:
        """Loads or computes the prefix of `messages` in `slot`; returns how many tokens were computed."""
        try:
            key, tokens = self._engine.prefix(messages)
            loaded = tokens and self._states is not None and self._states.load(key, self.folder / mark)
            if loaded and self._engine.restore(slot, mark) == len(tokens):
                self._register(mark)
                return 0
            computed = self._engine.compute(slot, tokens) if tokens else None
            self._writes = computed is not None and self._save(slot, mark)
            if self._writes:
                if self._states is not None:
                    self._states.save(key, self.folder / mark)
                self._register(mark)
            return computed or 0
        finally:
            with self._changed:
                self._first.discard(mark)
                self._changed.notify_all()

    def _save(self, slot: int, mark: str) -> bool:
        with suppress(OSError):  # llama.cpp would write into a file that it was loaded from
            (self.folder / mark).unlink(missing_ok=True)
            return self._engine.save(slot, mark)
        return False

    def _take(self, mark: str, beginning: str, text: str, given_up: Callable[[], bool]) -> int | None:
        with self._changed:
            while not given_up():
                known = len(beginning) < MIN_SAVED_CHARS or not self._writes or mark in self._files
                if self._free and (known or mark not in self._first):
                    slot = self._most_similar(mark, beginning, text)
                    self._free.remove(slot)
                    if known:
                        with suppress(KeyError):
                            self._files.move_to_end(mark)
                    else:
                        self._first.add(mark)
                    return slot
                self._changed.wait(0.1)
        return None

    def _most_similar(self, mark: str, beginning: str, text: str) -> int:
        """Returns the free slot that shares the longest prefix with `text`, or the least recently used one.

        The least recently used one is returned if the shared prefix is too short.
        """
        held = {slot: self._held.get(slot, "") for slot in self._free}
        shared = {slot: len(commonprefix([last, text])) for slot, last in held.items()}  # noqa: RUF071
        best = max(self._free, key=lambda slot: shared[slot])
        enough = len(beginning) if mark in self._files else len(text) * MIN_MATCHING_SHARE
        return best if shared[best] >= enough else self._free[0]

    def _register(self, mark: str) -> None:
        """Notes the file of a prefix, and deletes the least recently used ones above the limit."""
        with self._changed, suppress(OSError):
            self._files[mark] = (self.folder / mark).stat().st_size
            while sum(self._files.values()) > MOST_BYTES:
                oldest, _ = self._files.popitem(last=False)
                (self.folder / oldest).unlink(missing_ok=True)

    def close(self) -> None:
        """Removes the files."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)


def _text(messages: Sequence[Message]) -> str:
    return "".join(f"\0{message['role']}\0{message['content']}" for message in messages)


def _own_folder() -> tuple[Path, FileLock]:
    """Returns a new folder readable by this user only, and its lock; removes folders of dead processes."""
    base = Path(tempfile.gettempdir()) / f"ragc-slots-{getpass.getuser()}"
    base.mkdir(mode=0o700, exist_ok=True)
    seen = base.lstat()
    # in a shared folder any user could have created it
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
        base = Path(tempfile.mkdtemp())
    for lock in base.glob("*.lock"):
        with suppress(Timeout, OSError), FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base))
    held = FileLock(folder.with_suffix(".lock"))
    held.acquire(timeout=10)
    return folder, held
