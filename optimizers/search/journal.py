"""Optuna's journal of a study: one file of JSON lines with digests, which survives a kill without loss.

Each operation is one line, flushed to disk before the next. The line holds its digest under `ragc.check`,
which Optuna ignores. Lines by other programs, such as Optuna's dashboard, have no digest and are read too.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file

from ragc.core.files import PRIVATE_FILE

FILE = "study.journal"
"""The name of the file in the study's directory."""

WAIT_S = 3.0
"""Seconds to wait for another process to release the file."""

_CHECK = "ragc.check"
_BEGINNING = b'{"op_code":'


class DamagedJournal(OSError):
    """The journal is damaged. `filename` names the file and the text describes the damage."""

    def __str__(self) -> str:
        return str(self.strerror)


def journal(directory: Path, *, mend: bool = True) -> JournalStorage:
    """Opens the journal in `directory`, which must exist; the file is created if it is missing.

    A half-written last line, left by a killed process, is cut off, or ignored with `mend=False`.

    Raises OSError, DamagedJournal when the file is no journal or one of its lines is damaged.
    """
    if mend:
        (directory / FILE).touch(PRIVATE_FILE)
    return JournalStorage(_Lines(directory / FILE, mend))


class _Lock(JournalFileOpenLock):
    """A file lock that the system releases when its process dies.

    Optuna's own would block the next one for 30 s.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._held = FileLock(f"{path}.lock", timeout=WAIT_S, mode=PRIVATE_FILE)

    def acquire(self) -> bool:
        try:
            self._held.acquire()
        except Timeout:
            raise OSError(errno.EWOULDBLOCK, "it is locked", str(self._path)) from None
        return True

    def release(self) -> None:
        self._held.release()


class _Lines(JournalFileBackend):
    """The journal as lines with digests. While it gathers, lines wait and are written together at the end."""

    def __init__(self, path: Path, mend: bool) -> None:
        self._path, lock = path, _Lock(path)
        self._waiting: list[dict[str, Any]] | None = None
        self._first_waiting = 0
        lock.acquire()
        try:
            if mend and path.exists():
                _mend(path)
            super().__init__(str(path), lock)
        finally:
            lock.release()

    @contextmanager
    def gathering(self, number: int) -> Iterator[None]:
        """Writes the lines appended until exit with one append, also after an error.

        `number` is the number of lines so far, all of which were read. The caller holds the lock. Raises
        DamagedJournal if the file holds more than that.
        """
        size = self._path.stat().st_size if self._path.exists() else 0
        if size and self._log_number_offset.get(number, size) != size:
            raise _damage_error(self._path, f"line {number + 1} of {self._path.name} is damaged")
        self._first_waiting, self._waiting = number, []
        try:
            yield
        finally:
            logs, self._waiting = self._waiting, None
            if logs:
                self.append_logs(logs)
                # Where the next lines begin; else they would be searched for from the first one.
                self._log_number_offset[number + len(logs)] = self._path.stat().st_size

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if self._waiting is not None:
            self._waiting += [json.loads(json.dumps(log)) for log in logs]
            return
        if not self._path.exists():  # a new file would lack the earlier operations
            raise FileNotFoundError(errno.ENOENT, "it is gone", str(self._path))
        super().append_logs([{**log, _CHECK: _digest(log)} for log in logs])

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        if self._waiting is not None:
            yield from self._waiting[log_number_from - self._first_waiting :]
            return
        number = log_number_from
        try:
            for log in super().read_logs(log_number_from):
                number += 1
                yield _verify_line(log)
        except (ValueError, RecursionError) as error:
            at = number + (not isinstance(error, _DamagedLine))
            raise _damage_error(self._path, f"line {at} of {self._path.name} is damaged") from None


def _damage_error(path: Path, what: str) -> DamagedJournal:
    return DamagedJournal(errno.EIO, what, str(path))


class _DamagedLine(ValueError):
    """A line that is valid JSON but fails its check."""


def _verify_line(log: Any) -> dict[str, Any]:
    """Returns a line of the journal without its digest. Raises ValueError when it is damaged."""
    if not isinstance(log, dict):
        raise _DamagedLine
    entry = {name: value for name, value in log.items() if name != _CHECK}
    # With a damaged digest name the line would look like one of another program.
    renamed = any("ragc" in name or "check" in name for name in entry)
    if renamed or log.get(_CHECK, _digest(entry)) != _digest(entry):
        raise _DamagedLine
    return entry


def _digest(log: dict[str, Any]) -> str:
    """Returns 32 hexadecimal digits over `log`, as it will be read back from its line."""
    text = json.dumps(json.loads(json.dumps(log)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _mend(path: Path) -> None:
    """Cuts off a half-written last line, left by a killed process."""
    text = path.read_bytes()
    if not text.startswith(_BEGINNING[: len(text)]):
        raise _damage_error(path, f"{path.name} is no journal of Optuna's")
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)


@contextmanager
def one_append(study: optuna.Study) -> Iterator[None]:
    """Writes everything told to `study` until exit with one append to its journal.

    A kill leaves all of it or a prefix. Other kinds of storage write at once.
    """
    journal_storage = study._storage
    backend = getattr(journal_storage, "_backend", None)
    if not isinstance(journal_storage, JournalStorage) or not isinstance(backend, _Lines):
        yield
        return
    with get_lock_file(backend._lock):
        with journal_storage._thread_lock:
            journal_storage._sync_with_backend()  # reads what others wrote
        with backend.gathering(journal_storage._replay_result.log_number_read):
            yield
