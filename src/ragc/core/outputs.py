"""Writing where people keep files: what ragc did not write stays, byte for byte.

A folder that ragc writes has a manifest, a JSON file with the SHA-256 of every file under `files`. What a
later write may replace or remove is what the manifest lists and still has that digest; all else belongs to
others.

    OUT/run.json              the manifest: {..., "files": {"program.json": "<sha256>", ...}}
    OUT/.ragc-<random>/       a write under way
        begun.json, then ready.json   what comes and what goes
        new/                  the new files

A new folder is made beside its name and renamed. In one that is there the new files are written apart; from
the moment that `begun.json` is called `ready.json` the write is done, and `finish` moves the files to their
names, after a kill too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from ragc.core.digest import pretty
from ragc.core.inputs import kind_of, read_bytes
from ragc.errors import UsageError

FORMAT = "ragc.replacing/1"
FILES = "files"
_APART = ".ragc-"
_BEGUN, _READY, _NEW = "begun.json", "ready.json", "new"
_PROBE_BYTES = 2**16

Files = Mapping[str, bytes]
"""Contents by relative path, with `/`."""


class Foreign(UsageError):
    """What stands there was not written by ragc, or was changed since."""


def sha256(content: bytes) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def with_manifest(
    name: str, about: Mapping[str, Any], files: Files, written: Callable[[Any], bytes] | None = None
) -> dict[str, bytes]:
    """`files` and their manifest `name`, which says `about` as well. Its own digest is that of `about`.

    `written` makes the bytes of the manifest; by default they are indented JSON with sorted keys.
    """
    plain = {key: value for key, value in about.items() if key != FILES}
    listed = {each: sha256(content) for each, content in files.items()} | {name: _own_digest(plain)}
    whole = {**plain, FILES: listed}
    content = written(whole) if written else pretty(whole).encode("utf-8", "surrogatepass")
    return {**files, name: content}


def _own_digest(plain: Mapping[str, Any]) -> str:
    return sha256(pretty(plain).encode("utf-8", "surrogatepass"))


def own_files(folder: Path, manifest: str) -> dict[str, str]:
    """Digest by relative path of what ragc wrote into `folder`; {} where there is no manifest."""
    try:
        listed = json.loads(read_bytes(folder / manifest))[FILES]
        return {str(name): str(digest) for name, digest in listed.items() if _is_inside(str(name))}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def resolve_out(out: str | Path) -> Path:
    """The absolute path that `out` leads to, links resolved. Raises UsageError where there can be none."""
    text = os.fspath(out)
    try:
        text.encode("utf-8")
        if not text or "\0" in text:
            raise ValueError
    except ValueError:
        raise UsageError(f"{text!r} cannot be the path of a file: it is empty, or not plain text.") from None
    path = Path(text)
    try:
        path = Path(os.path.realpath(text))
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # `check_writable` tells what stands in the way
    except OSError as error:
        raise UsageError(f"{text} cannot be written: {error.strerror}; choose another --out.") from None
    if Path(text).is_symlink() and not path.exists():
        raise UsageError(f"{text} is a link to {path}, which is not there; choose another --out.")
    return path


def check_writable(out: Path) -> None:
    """Write something where `out` is or will be, and remove it. Raises UsageError when that fails.

    `out` is a path that `resolve_out` gave; nothing is left behind, no folder either.
    """
    above = next(folder for folder in (out, *out.parents) if os.path.lexists(folder))
    missing = out.relative_to(above).parts
    if not above.is_dir():
        if missing:
            raise UsageError(f"{out} cannot be written: {above} is not a folder; choose another --out.")
        above = above.parent
    try:
        with tempfile.TemporaryDirectory(prefix=_APART, dir=above) as scratch:
            probe = Path(scratch)
            for name in missing:
                probe /= name
                probe.mkdir()
            _write(probe / "probe", b"\0" * _PROBE_BYTES)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}; choose another --out.") from None


def check_folder(out: Path, manifest: str, *, what: str, ours: Callable[[Path], bool]) -> None:
    """Raise Foreign unless `out` may become a folder that is `what`, such as "a compiled program".

    It may when it is not there, is an empty folder, or holds one that `ours` knows by its content and whose
    files are as its manifest says. `out` is a path that `resolve_out` gave.
    """
    if not os.path.lexists(out):
        return
    if not stat.S_ISDIR(out.lstat().st_mode):
        raise Foreign(f"{out} exists and is not {what}; choose another --out or move it away.")
    if not any(out.iterdir()):
        return
    finish(out)
    if not ours(out):
        raise Foreign(f"{out} exists and is not {what}; choose another --out or move it away.")
    listed = own_files(out, manifest)
    if not listed:
        raise Foreign(
            f"{out} is {what} whose {manifest} does not list its files, so that they cannot be told from "
            "yours; choose another --out or move it away."
        )
    for name in listed:
        _check_own(out, name, manifest, listed)


def _check_own(
    folder: Path, name: str, manifest: str, listed: Mapping[str, str], content: bytes = b""
) -> None:
    """Raise Foreign when `name` in `folder` is something that may not be replaced by `content`."""
    path = folder
    for part in PurePosixPath(name).parts[:-1]:
        path /= part
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            raise Foreign(f"{path} is not a folder of ragc's; move it away or choose another --out.")
    path = folder / name
    if not os.path.lexists(path):
        return
    if kind := kind_of(path.lstat().st_mode):
        raise Foreign(f"{path} is {kind}, which ragc did not write; move it away or choose another --out.")
    current_digest = _digest_at(path, manifest if name == manifest else "")
    if current_digest not in (listed.get(name), sha256(content) if content else None):
        changed = "was changed since ragc wrote it" if name in listed else "was not written by ragc"
        raise Foreign(f"{path} {changed}; move it away or choose another --out.")


def _digest_at(path: Path, manifest: str = "") -> str:
    """The digest of a file; of a manifest without its list."""
    try:
        content = read_bytes(path)
        if not manifest:
            return sha256(content)
        return _own_digest({key: value for key, value in json.loads(content).items() if key != FILES})
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""


def put_folder(out: Path, files: Files, manifest: str) -> None:
    """Make `out` hold `files`, of which `manifest` lists all; foreign files in it stay.

    `out` is a path that `resolve_out` gave and `check_folder` let pass; what an earlier write put there and
    this one does not is removed. Raises Foreign and OSError; then all is as it was.
    """
    if not os.path.lexists(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(out.parent) as scratch:
            _write_all(scratch / _NEW, files)
            (scratch / _NEW).rename(out)
            _sync(out.parent)
        return
    finish(out)
    for left in _pending_writes(out, _BEGUN):
        _discard(left)
    old = own_files(out, manifest)
    for name, content in files.items():
        _check_own(out, name, manifest, old, content)
    with _scratch(out) as scratch:
        plan = {"format": FORMAT, "manifest": manifest, "new": sorted(files), "old": old}
        _write(scratch / _BEGUN, pretty(plan).encode())
        _write_all(scratch / _NEW, files)
        (scratch / _BEGUN).rename(scratch / _READY)
        _sync(scratch)
        _roll_forward(out, scratch)


def put_file(out: Path, content: bytes) -> None:
    """Write a regular file at once; what is there before is replaced. Raises OSError, all then as it was."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(out.parent) as scratch:
        fresh = scratch / _NEW
        _write(fresh, content)
        fresh.replace(out)


def finish(folder: Path) -> None:
    """Complete the writes into `folder` that a kill cut off after they were ready. Raises OSError."""
    for write in _pending_writes(folder, _READY):
        _roll_forward(folder, write)


def remove(folder: Path, manifest: str) -> None:
    """Remove what ragc wrote into `folder` and, when nothing else is in it, the folder. Raises OSError."""
    listed = own_files(folder, manifest)
    for name, digest in sorted(listed.items(), key=lambda item: item[0] == manifest):  # the manifest last
        _remove_own(folder, name, digest, manifest)
    with suppress(OSError):
        folder.rmdir()


def _pending_writes(folder: Path, state: str) -> Iterator[Path]:
    """The writes in `folder` that are in `state`, each a real folder with a plan of ours."""
    with suppress(OSError):
        for path in sorted(folder.glob(f"{_APART}*")):
            if stat.S_ISDIR(path.lstat().st_mode) and _plan(path / state):
                yield path


def _plan(path: Path) -> dict[str, Any]:
    """What `path` says comes and goes; {} when it is no plan."""
    try:
        plan = json.loads(read_bytes(path)) if not path.is_symlink() else {}
        whole = plan.get("format") == FORMAT and all(map(_is_inside, (*plan["new"], *plan["old"])))
        whole = whole and isinstance(plan["manifest"], str)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return plan if whole else {}


def _roll_forward(folder: Path, write: Path) -> None:
    """Move what `write` holds to its names, remove what goes, then `write` itself."""
    plan = _plan(write / _READY)
    for name in plan.get("new", ()):
        fresh, target = write / _NEW / name, folder / name
        if _is_regular(write / _NEW, name) and _is_free(folder, name, plan):
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process finishes it too
                fresh.replace(target)
    for name in plan.get("old", {}).keys() - set(plan.get("new", ())):
        _remove_own(folder, name, plan["old"][name])
    _sync(folder)
    _discard(write)


def _is_regular(folder: Path, name: str) -> bool:
    """Whether `name` is a regular file in `folder`, reached without a link."""
    try:
        above = [folder / parent for parent in PurePosixPath(name).parents]
        real = all(stat.S_ISDIR(each.lstat().st_mode) for each in above)
        return real and stat.S_ISREG((folder / name).lstat().st_mode)
    except OSError:
        return False


def _is_free(folder: Path, name: str, plan: Mapping[str, Any]) -> bool:
    """Whether `name` in `folder` is not there, or is what the `plan` replaces; no link leads to it."""
    for parent in PurePosixPath(name).parents:
        path = folder / parent
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            return False
    if not os.path.lexists(folder / name):
        return True
    manifest = plan["manifest"] if name == plan["manifest"] else ""
    return _is_regular(folder, name) and _digest_at(folder / name, manifest) == plan["old"].get(name)


def _remove_own(folder: Path, name: str, digest: str, manifest: str = "") -> None:
    if (
        _is_regular(folder, name)
        and _digest_at(folder / name, manifest if name == manifest else "") == digest
    ):
        (folder / name).unlink()
    for parent in PurePosixPath(name).parents:
        if parent.parts:
            with suppress(OSError):
                (folder / parent).rmdir()


def _discard(write: Path) -> None:
    """Remove a write: what its plan lists, and its folders. What is not of it stays."""
    plan = _plan(write / _READY) or _plan(write / _BEGUN)
    for name in plan.get("new", ()):
        if _is_regular(write / _NEW, name):
            (write / _NEW / name).unlink(missing_ok=True)
        for parent in PurePosixPath(name).parents:
            with suppress(OSError):
                (write / _NEW / parent).rmdir()
    for name in (_BEGUN, _READY):
        (write / name).unlink(missing_ok=True)
    with suppress(OSError):
        write.rmdir()


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A new folder in `folder` that is gone afterwards, unless a write in it is ready."""
    scratch = Path(tempfile.mkdtemp(prefix=_APART, dir=folder))
    try:
        yield scratch
    finally:
        if not (scratch / _READY).exists():
            shutil.rmtree(scratch, ignore_errors=True)  # made here a moment ago, by a name that was free


def _write_all(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        if not _is_inside(name):
            raise OSError(errno.EINVAL, "the name leads out of its folder", name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / name, content)


def _write(path: Path, content: bytes) -> None:
    """Write a new file, on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Wait until the list of names of `folder` is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
