"""States of prompt prefixes on disk: computed by one process, loaded by later ones in milliseconds.

    <cache home>/prefixes/<key>-<checksum>.state    a slot's state as llama.cpp writes it
    <cache home>/prefixes/<random>.part             an unfinished one

`key` is a digest of everything that the state depends on: the weights, the engine and the tokens. The
checksum covers key and content, so that a damaged, cut or renamed file is recognized; it is deleted and
computed again. A file gets its name by one rename, and equal states have equal names: processes need no lock.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.core.files import cache_home, open_regular

FORMAT = "ragc.prefix/1"

MOST_BYTES = 1 << 30
"""Maximum size of all states; the least recently used are deleted first. SmolLM2 takes 23 KB a token."""

_SUFFIX, _PART = ".state", ".part"
_STALE_S = 3600.0


def prefixes_home() -> Path:
    """Returns the folder of all states; not created here."""
    return cache_home() / "prefixes"


def state_key(weights: str, engine: Any, tokens: Sequence[int]) -> str:
    """Returns the key of the state after `tokens`; `engine` is JSON and names all else that matters."""
    return digest([FORMAT, weights, engine, list(tokens)])[:32]


class PrefixStates:
    """The states in `folder`, by default the user's cache. Its methods raise nothing: a cache may fail."""

    def __init__(self, folder: Path | None = None, most_bytes: int | None = None) -> None:
        self.folder = prefixes_home() if folder is None else folder
        self._most_bytes = MOST_BYTES if most_bytes is None else most_bytes

    def load(self, key: str, target: Path) -> bool:
        """Makes the intact state of `key` available as the file `target`; returns False if there is none."""
        for path in self.paths(key):
            with suppress(OSError):
                target.unlink(missing_ok=True)
                if stat.S_ISREG(path.lstat().st_mode):  # a pipe would never end
                    _link(path, target)
                    if _name(key, target) == path.name:
                        os.utime(path)  # used now
                        return True
                path.unlink(missing_ok=True)
        with suppress(OSError):
            target.unlink(missing_ok=True)
        return False

    def save(self, key: str, source: Path) -> None:
        """Stores the file `source` as the state of `key`, unless the disk is full or it exceeds the limit."""
        part = self.folder / f"{secrets.token_hex(8)}{_PART}"
        try:
            if source.stat().st_size > self._most_bytes:
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _link(source, part)
            part.replace(self.folder / _name(key, part))
        except OSError:
            return
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        self._prune()

    def paths(self, key: str = "") -> list[Path]:
        """Returns the files of the states, or only those of `key`."""
        try:
            return sorted(self.folder.glob(f"{key}*{_SUFFIX}"))
        except OSError:
            return []

    def _prune(self) -> None:
        """Deletes the least recently used states above the limit, and partial files of killed processes."""
        with suppress(OSError):
            for part in self.folder.glob(f"*{_PART}"):
                with suppress(OSError):
                    if part.stat().st_mtime < time.time() - _STALE_S:
                        part.unlink()
        total = 0
        for _, size, path in sorted(_used(self.paths()), reverse=True):
            total += size
            if total > self._most_bytes:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _used(paths: Iterable[Path]) -> Iterable[tuple[int, int, Path]]:
    """Yields time of use, size and path of each file that is still there."""
    for path in paths:
        with suppress(OSError):
            seen = path.stat()
            yield seen.st_mtime_ns, seen.st_size, path


def _link(source: Path, target: Path) -> None:
    """Links `source` under a second name, or copies it if the file system has no links between them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _name(key: str, path: Path) -> str:
    """Returns the file name of the state of `key` with the content of `path`."""
    checksum = hashlib.sha256(key.encode())
    with open_regular(path) as file:
        while piece := file.read(1 << 20):
            checksum.update(piece)
    return f"{key}-{checksum.hexdigest()[:32]}{_SUFFIX}"


def _is_intact(path: Path) -> bool:
    try:
        return _name(path.name.partition("-")[0], path) == path.name
    except OSError:
        return False
