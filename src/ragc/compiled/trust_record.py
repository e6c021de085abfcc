"""The record of compiled directories that this machine compiled or was told to trust, by digest.

    CACHE/trusted/<digest>-<location>.json     one entry a digest and directory, written at once, for one user

A digest covers the bytes of `DIGESTED` and, if these name the author's code, the modules in the directory. An
edited directory therefore has another digest. An entry that is damaged, or that another user could have
written, is ignored: the directory is then data from outside.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.core.digest import digest, pretty
from ragc.core.files import cache_home, make_private, open_regular, put_file, read_bytes
from ragc.core.user_code import is_reference
from ragc.errors import UsageError

log = logging.getLogger("ragc.trust")

DIGESTED = ("program.json", "provenance.json", "recipe.toml")
"""The files of a compiled directory that say what it does and where it came from."""

TRUST_ENV = "RAGC_TRUST"
"""The variable of the environment that may name one digest, `sha256:` and 64 hexadecimal digits."""

FORMAT = "ragc.trusted/1"
_WRITTEN = re.compile(r"sha256:[0-9a-f]{64}")
_MODULES = (".py", ".pyw", ".pyc", ".so", ".pyd", ".dylib", ".dll")
"""How files end that Python can run, or that those load, on any system."""


@dataclass(frozen=True, slots=True)
class TrustEntry:
    """One entry: `path` is the directory as it was recorded, `base` the folder of its relative paths then.

    `base` is "" if they are resolved from the directory itself. `since` is in seconds.
    """

    path: str
    base: str
    since: float


def digest_of(contents: Mapping[str, bytes], code: Mapping[str, str]) -> str:
    """Returns the digest of a compiled directory whose files have these `contents`: `sha256:` and 64 digits.

    It covers `code` too, the digests of `code_in`.
    """
    hashes = {name: hashlib.sha256(contents[name]).hexdigest() for name in DIGESTED}
    return f"sha256:{digest(['ragc.compiled', hashes, *([dict(code)] if code else [])])}"


def code_in(folder: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the SHA-256 of every module in the compiled directory `folder`, by relative path.

    Files in folders with modules are included. {} if its `contents` name no code of its author. Raises
    OSError and UsageError.
    """
    if not _names_code(contents):
        return {}
    return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in code_files(folder).items()}


def code_files(folder: Path) -> dict[str, Path]:
    """Returns the files in `folder` that an import could run or read, by relative path with `/`, sorted.

    Those are modules, what Python compiled of them too, and all files of folders that hold any; links are
    followed. Hidden folders right in `folder`, and data there, are not included.
    """
    names = sorted(glob.glob("**", root_dir=folder, recursive=True, include_hidden=True))  # noqa: PTH207
    names = [name for name in names if not name.startswith(".") and (folder / name).is_file()]
    packages = {name.partition("/")[0] for name in names if "/" in name and name.endswith(_MODULES)}
    return {n: folder / n for n in names if n.endswith(_MODULES) or n.partition("/")[0] in packages}


def _names_code(contents: Mapping[str, bytes]) -> bool:
    """Returns whether any text in the recipe, or the program, names an object in a module."""
    try:
        waiting: list[Any] = [tomllib.loads(contents["recipe.toml"].decode("utf-8"))]
        waiting.append(json.loads(contents["program.json"]).get("method"))
    except (ValueError, AttributeError, RecursionError):
        return True
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and is_reference(value.removeprefix("-")):
            return True
    return False


def record_folder() -> Path:
    """Returns the folder of the entries; it is not created here."""
    return cache_home() / "trusted"


def remember(path: Path, digest: str, base: str = "") -> None:
    """Records that the directory `path` with this `digest` is trusted from now on. Raises OSError.

    Entries of the same digest and directory replace each other; any number of processes may write.
    """
    folder = make_private(record_folder())
    location = str(path.resolve())
    entry = {"format": FORMAT, "digest": digest, "path": location, "base": base}
    content = pretty(entry).encode("utf-8", "surrogateescape")
    put_file(folder / _name(digest, location), content, private=True)


def remember_written(folder: Path, base: str = "") -> None:
    """Records the compiled directory that this process has just written.

    If that fails a warning is logged: the program is complete, but opens as one from outside.
    """
    try:
        contents = {name: (folder / name).read_bytes() for name in DIGESTED}
        digest = digest_of(contents, code_in(folder, contents))
        remember(folder, digest, base)
        if not entries(digest, folder):
            raise PermissionError(f"others may write to {record_folder()}")
    except (OSError, UsageError) as error:
        log.warning(
            "The digest of %s could not be recorded (%s); `ragc trust %s` does it later.",
            folder,
            error,
            folder,
        )


def entries(digest: str, folder: Path | None = None) -> tuple[TrustEntry, ...]:
    """Returns the entries of `digest`, the newest first.

    Empty if the record lies inside the compiled directory `folder`, which could then have written it.
    """
    home = record_folder()
    if folder is not None and _is_within(home, folder):
        return ()
    try:
        if not (_WRITTEN.fullmatch(digest) and stat.S_ISDIR(home.lstat().st_mode) and _is_own(home.lstat())):
            return ()
        known = [entry for path in home.glob(f"{_hex(digest)}-*.json") if (entry := _read(path, digest))]
    except OSError:
        return ()
    return tuple(sorted(known, key=lambda entry: (-entry.since, entry.path)))


def is_trusted(digest: str, folder: Path | None = None) -> bool:
    """Returns whether `digest` is in the record or in `RAGC_TRUST`; UsageError if that is no digest."""
    return is_named(digest) or bool(entries(digest, folder))


def is_named(digest: str) -> bool:
    """Returns whether the environment names `digest`; raises UsageError if it names no digest."""
    named = os.environ.get(TRUST_ENV, "").strip()
    if named and not _WRITTEN.fullmatch(named):
        raise UsageError(
            f"{TRUST_ENV} must be one digest, sha256: and 64 hexadecimal digits, as `ragc trust PATH` prints "
            f"it; found {named[:80]!r}."
        )
    return named == digest


def base_of(digest: str, folder: Path) -> Path:
    """Returns the folder from which relative paths of the compiled directory `folder` are resolved.

    That is the folder used when this machine compiled it, if it still exists, and else the directory itself.
    """
    here = str(folder.resolve())
    known = sorted(entries(digest, folder), key=lambda entry: entry.path != here)
    for entry in known:
        if entry.base and Path(entry.base).is_dir():
            return Path(entry.base)
    return folder.resolve()


def _hex(written: str) -> str:
    return written.removeprefix("sha256:")


def _name(written: str, location: str) -> str:
    return f"{_hex(written)}-{digest(location)[:16]}.json"


def _read(path: Path, address: str) -> TrustEntry | None:
    """Returns the entry in the file `path`; None if it is damaged, renamed or could be written by others."""
    try:
        with open_regular(path, follow=False) as file:
            seen = os.fstat(file.fileno())
            if not (stat.S_ISREG(seen.st_mode) and _is_own(seen)):
                return None
            value = json.loads(file.read(1 << 20).decode("utf-8", "surrogateescape"))
        location, base = value["path"], value["base"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(location, str) and isinstance(base, str)):
        return None
    if (
        value.get("format") != FORMAT
        or value.get("digest") != address
        or path.name != _name(address, location)
    ):
        return None
    return TrustEntry(location, base, seen.st_mtime)


def _is_own(seen: os.stat_result) -> bool:
    """Returns whether the file with the status `seen` belongs to this user and no other user may write it."""
    own = not hasattr(os, "geteuid") or seen.st_uid == os.geteuid()
    return own and not (os.name == "posix" and bool(seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)))


def _is_within(home: Path, folder: Path) -> bool:
    """Returns whether `home` lies inside `folder`, links followed; True if that is unknown."""
    try:
        return home.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return True
