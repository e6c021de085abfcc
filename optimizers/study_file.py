"""The storage of a study on one machine: Optuna's journal in one file, of which a kill loses nothing.

Each operation is one line of JSON, on disk before the next, with a digest of itself under `ragc.check`, which
Optuna passes over. Lines that other programs wrote, such as Optuna's dashboard, have none and are read too.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

FILE = "study.journal"
"""The name of the file in the study's directory."""

WAIT_S = 3.0
"""How long another process may hold the file."""

_CHECK = "ragc.check"
_BEGINNING = b'{"op_code":'


class DamagedJournal(OSError):
    """The file is not what was written; `filename` names it, and the text says what is wrong."""

    def __str__(self) -> str:
        return str(self.strerror)


def journal(directory: Path, *, mend: bool = True) -> JournalStorage:
    """The storage that is a file in `directory`, which must be there; the file is made.

    The half of a line that a killed process left at its end is cut off, or passed over without `mend`.

    Raises OSError, DamagedJournal when the file is something else or a line of it is damaged.
    """
    return JournalStorage(_Lines(directory / FILE, mend))


class _Lock(JournalFileOpenLock):
    """One that the system frees when its process dies; Optuna's own would hold the next one up for 30 s."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._held = FileLock(f"{path}.lock", timeout=WAIT_S)

    def acquire(self) -> bool:
        try:
            self._held.acquire()
        except Timeout:
            raise OSError(errno.EWOULDBLOCK, "it is locked", str(self._path)) from None
        return True

    def release(self) -> None:
        self._held.release()


class _Lines(JournalFileBackend):
    def __init__(self, path: Path, mend: bool) -> None:
        self._path, lock = path, _Lock(path)
        lock.acquire()
        try:
            if mend and path.exists():
                _mend(path)
            super().__init__(str(path), lock)
        finally:
            lock.release()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if not self._path.exists():  # to begin a new file would lose what stood in this one
            raise FileNotFoundError(errno.ENOENT, "it is gone", str(self._path))
        super().append_logs([{**log, _CHECK: _digest(log)} for log in logs])

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        number = log_number_from
        try:
            for log in super().read_logs(log_number_from):
                number += 1
                yield _checked(log)
        except (ValueError, RecursionError) as error:
            at = number + (not isinstance(error, _Damaged))
            raise _damaged(self._path, f"line {at} of {self._path.name} is damaged") from None


def _damaged(path: Path, what: str) -> DamagedJournal:
    return DamagedJournal(errno.EIO, what, str(path))


class _Damaged(ValueError):
    """A line that is JSON and not what was written."""


def _checked(log: Any) -> dict[str, Any]:
    """A line of the journal, without its digest. Raises ValueError when it is damaged."""
    if not isinstance(log, dict):
        raise _Damaged
    kept = {name: value for name, value in log.items() if name != _CHECK}
    # The name of the digest may be what is damaged, so that the line looks like one of another program.
    renamed = any("ragc" in name or "check" in name for name in kept)
    if renamed or log.get(_CHECK, _digest(kept)) != _digest(kept):
        raise _Damaged
    return kept


def _digest(log: dict[str, Any]) -> str:
    """32 hexadecimal digits over `log` as it is read back from its line."""
    text = json.dumps(json.loads(json.dumps(log)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _mend(path: Path) -> None:
    """Cut off the half of a line that a killed process left."""
    text = path.read_bytes()
    if not text.startswith(_BEGINNING[: len(text)]):
        raise _damaged(path, f"{path.name} is no journal of Optuna's")
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)
