"""The record of write plans: a killed write is finished only if it is recorded in this user's home.

    CACHE/writes/<sha256 of the plan>.json    the folder that the plan belongs to, for people only: only the
                                              name is read

A plan found in a folder is untrusted data until its digest is in this record. An entry is written and synced
before its plan takes effect, and removed when the plan was carried out.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ragc.core.home import cache_home, is_own, is_within, make_private, open_private

FORMAT = "ragc.write/1"


def record_folder() -> Path:
    """Returns the folder of the entries, which is not created here."""
    return cache_home() / "writes"


def remember(plan: bytes, folder: Path) -> None:
    """Records that this user began `plan` in `folder`; synced to disk. Raises OSError."""
    home = _home(folder)
    entry = json.dumps({"format": FORMAT, "folder": str(folder)}, sort_keys=True)
    with open(_entry(plan), "wb", opener=open_private) as file:
        file.write(entry.encode("utf-8", "surrogateescape"))
        file.flush()
        os.fsync(file.fileno())
    _sync(home)


def forget(plan: bytes) -> None:
    """Removes `plan` from the record; a remaining entry is harmless."""
    with suppress(OSError):
        _entry(plan).unlink(missing_ok=True)


def is_recorded(plan: bytes, folder: Path) -> bool:
    """Returns whether this user began `plan`. False if another user could have written the record.

    So it is for a record that lies inside `folder`, or that others may write.
    """
    home, entry = record_folder(), _entry(plan)
    try:
        if is_within(home, folder) or not (stat.S_ISDIR(home.lstat().st_mode) and is_own(home.lstat())):
            return False
        return stat.S_ISREG(entry.lstat().st_mode) and is_own(entry.lstat())
    except OSError:
        return False


def check(folder: Path) -> None:
    """Checks that a plan in `folder` can be recorded, by writing and removing a file. Raises OSError."""
    with tempfile.NamedTemporaryFile(prefix=".", suffix=".new", dir=_home(folder)):
        pass


def _home(folder: Path) -> Path:
    """Creates and returns the record's folder. Raises OSError if it would not be trusted for `folder`."""
    home = make_private(record_folder())
    if is_within(home, folder):
        raise PermissionError("it lies inside that folder")
    if not is_own(home.lstat()):
        raise PermissionError("it belongs to another user, or others may write to it")
    return home


def _entry(plan: bytes) -> Path:
    return record_folder() / f"{hashlib.sha256(plan).hexdigest()}.json"


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
