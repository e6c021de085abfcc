"""The files that ragc keeps for this user alone: the cache can be recomputed, the state cannot.

The cache holds store, studies, indexes and weights; the state is the ledger of uses. Files and folders are
created with modes 0600 and 0700, and narrowed when they are wider. This applies only to ragc's own files,
never to a folder of results that the user named. Systems other than POSIX have no such modes; there nothing
is changed.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ragc.errors import UsageError

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
"""The modes of folders and files that only their owner may read."""


def cache_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    A relative `$XDG_CACHE_HOME` is ignored, as its specification requires. Raises UsageError for a relative
    `$RAGC_HOME`, and where no variable is set and this user has no home folder.
    """
    return _home("XDG_CACHE_HOME", ".cache", "cache")


def state_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_STATE_HOME/ragc`, else `~/.local/state/ragc`. Not created here.

    Its files are no cache: they cannot be recomputed. Raises UsageError as `cache_home` does.
    """
    return _home("XDG_STATE_HOME", ".local/state", "ledger of uses")


def _home(variable: str, default: str, what: str) -> Path:
    """Returns `$RAGC_HOME`, else `ragc` in the folder that `variable` names, else in `default` in the user's
    home.
    """
    if own := os.environ.get("RAGC_HOME"):
        if not Path(own).is_absolute():  # the folder of somebody else could contain a record of trust
            raise UsageError(
                f"RAGC_HOME must be an absolute path, since another folder would have another cache; found "
                f"{own!r}, so set it to {str(Path.cwd() / own)!r}."
            )
        return Path(own)
    base = os.environ.get(variable, "")
    try:
        return (Path(base) if Path(base).is_absolute() else Path.home() / default) / "ragc"
    except RuntimeError:
        raise UsageError(
            f"This user has no home folder to keep the {what} in; set RAGC_HOME to one."
        ) from None


def make_private(folder: Path) -> Path:
    """Creates `folder` and missing folders above it for this user alone, and narrows it. Raises OSError.

    Folders above it that exist keep their modes.
    """
    missing = []
    for above in (folder, *folder.parents):
        if os.path.lexists(above):
            break
        missing.append(above)
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process may create it too
            each.mkdir(PRIVATE_FOLDER)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)  # raises where it is no folder
    narrow(folder)
    return folder


def narrow(path: Path) -> None:
    """Takes the rights of group and others from `path`, if it is a file or folder of this user.

    Links are not changed, nor are files of other users, or that cannot be changed.
    """
    with suppress(OSError):
        seen = path.lstat()
        own = os.name == "posix" and seen.st_uid == os.geteuid()
        if own and seen.st_mode & 0o077 and (stat.S_ISDIR(seen.st_mode) or stat.S_ISREG(seen.st_mode)):
            path.chmod(stat.S_IMODE(seen.st_mode) & 0o700)


def narrow_tree(folder: Path) -> None:
    """Takes the rights of group and others from `folder` and everything in it, as `narrow` does."""
    narrow(folder)
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            narrow(Path(here) / name)


def write_private(path: Path, text: str) -> None:
    """Writes a text file that only its owner may read, replacing an existing one. Raises OSError."""
    with open(path, "w", encoding="utf-8", opener=open_private) as file:
        file.write(text)


def replace_private(path: Path, text: str) -> None:
    """Writes a text file that only its owner may read; a power loss leaves the old or the new one.

    A kill may leave a file named as `path` with a dot before, and `-` and 8 digits after it. Raises OSError.
    """
    fresh = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def create_private(path: Path) -> None:
    """Creates the file `path` for its owner alone if it is missing; does nothing else. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY, PRIVATE_FILE))


def open_private(path: str, flags: int) -> int:
    """Opens a file, created with mode 0600, and returns its descriptor: an `opener` for `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def is_own(seen: os.stat_result) -> bool:
    """Returns whether the file with the status `seen` belongs to this user and no other user may write it."""
    own = not hasattr(os, "geteuid") or seen.st_uid == os.geteuid()
    return own and not (os.name == "posix" and bool(seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)))


def is_within(home: Path, folder: Path) -> bool:
    """Returns whether `home` lies inside `folder`, links followed; True if that is unknown."""
    try:
        return home.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return True
