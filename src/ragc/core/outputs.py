"""Writes output files and folders, and preserves foreign files: those that ragc did not write.

A folder written by ragc has a manifest, a JSON file with the SHA-256 of every file under `files`. A later
write may replace or remove a file only if the manifest lists it with its current digest.

    OUT/run.json              the manifest: {..., "files": {"program.json": "<sha256>", ...}}
    OUT/.ragc-<random>/       a write in progress
        begun.json, then ready.json   the plan: files to add and to remove, with their digests
        new/                  the new files

A new folder is written under a temporary name beside its own and renamed. For an existing folder the new
files are written to `new/`. Renaming `begun.json` to `ready.json` commits the write; `finish` then moves the
files to their names, also after a kill. Anybody could put such a plan into a folder. So only a plan that this
user's home recorded (`home.plans`) is carried out, and only by a command that writes there: readers refuse a
folder with a committed plan (`unfinished`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from ragc.core import plans
from ragc.core.digest import pretty
from ragc.core.inputs import kind_of, read_bytes
from ragc.errors import StoreError, UsageError

FORMAT = "ragc.replacing/2"
FILES = "files"
APART = ".ragc-"
"""What the folder of a write in progress begins with."""

_BEGUN, _READY, _NEW = "begun.json", "ready.json", "new"
_PROBE_BYTES = 2**16
_WAIT_S, _STEP_S = 0.5, 0.02
"""How long, in seconds, a reader waits for another process that is just moving its files, and how often it
looks."""

Files = Mapping[str, bytes]
"""File contents by relative path, with `/`."""


class Foreign(UsageError):
    """The existing file or folder was not written by ragc, or was changed since."""


def sha256(content: bytes) -> str:
    """Returns the SHA-256 of `content`, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def with_manifest(
    name: str, about: Mapping[str, Any], files: Files, written: Callable[[Any], bytes] | None = None
) -> dict[str, bytes]:
    """Returns `files` plus their manifest `name`, which also holds `about`. The manifest's own digest covers
    `about`.

    `written` serializes the manifest; by default as indented JSON with sorted keys.
    """
    plain = {key: value for key, value in about.items() if key != FILES}
    listed = {each: sha256(content) for each, content in files.items()} | {name: _own_digest(plain)}
    whole = {**plain, FILES: listed}
    content = written(whole) if written else pretty(whole).encode("utf-8", "surrogatepass")
    return {**files, name: content}


def _own_digest(plain: Mapping[str, Any]) -> str:
    return sha256(pretty(plain).encode("utf-8", "surrogatepass"))


def own_files(folder: Path, manifest: str) -> dict[str, str]:
    """Returns digests by relative path of the files that ragc wrote into `folder`; {} without a manifest."""
    try:
        listed = json.loads(read_bytes(folder / manifest))[FILES]
        return {str(name): str(digest) for name, digest in listed.items() if _is_inside(str(name))}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def resolve_out(out: str | Path) -> Path:
    """Returns the absolute path of `out`, links resolved. Raises UsageError if there is none."""
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
        pass  # `check_writable` reports the obstacle
    except OSError as error:
        raise UsageError(f"{text} cannot be written: {error.strerror}; choose another --out.") from None
    if Path(text).is_symlink() and not path.exists():
        raise UsageError(f"{text} is a link to {path}, which is not there; choose another --out.")
    return path


def check_writable(out: Path) -> None:
    """Checks that `out` can be written, by writing and removing a file. Raises UsageError when that fails.

    `out` is a path from `resolve_out`. Nothing is left behind, not even a folder.
    """
    above = next(folder for folder in (out, *out.parents) if os.path.lexists(folder))
    missing = out.relative_to(above).parts
    if not above.is_dir():
        if missing:
            raise UsageError(f"{out} cannot be written: {above} is not a folder; choose another --out.")
        above = above.parent
    try:
        with tempfile.TemporaryDirectory(prefix=APART, dir=above) as scratch:
            probe = Path(scratch)
            for name in missing:
                probe /= name
                probe.mkdir()
            _write(probe / "probe", b"\0" * _PROBE_BYTES)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}; choose another --out.") from None


def check_folder(
    out: Path, manifest: str, *, what: str, ours: Callable[[Path], bool], names: re.Pattern[str]
) -> None:
    """Raises Foreign unless `out` may become a folder that is `what`, such as "a compiled program".

    It may if it does not exist, is an empty folder, or holds one that `ours` recognizes by its content, whose
    files match its manifest and have `names` that ragc gives. A write of this user that was killed is
    finished first. `out` is a path from `resolve_out`. Raises StoreError where writes cannot be recorded.
    """
    if not os.path.lexists(out):
        return
    if not stat.S_ISDIR(out.lstat().st_mode):
        raise Foreign(f"{out} exists and is not {what}; choose another --out or move it away.")
    if not any(out.iterdir()):
        _check_record(out)
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
        if not names.fullmatch(name):
            raise Foreign(
                f"{out / manifest} lists {name!r}, which is no name of a file in {what}; move {out} away or "
                "choose another --out."
            )
        _check_own(out, name, manifest, listed)
    _check_record(out)


def _check_record(out: Path) -> None:
    """Raises StoreError unless a write into the existing folder `out` can be recorded."""
    try:
        plans.check(out)
    except OSError as error:
        raise StoreError(
            f"{out} exists, and before ragc writes into such a folder it records the write in "
            f"{plans.record_folder()}, which failed ({error.strerror or error}); set RAGC_HOME to a folder "
            "of yours, or choose an --out that is not there yet."
        ) from None


def _check_own(
    folder: Path, name: str, manifest: str, listed: Mapping[str, str], content: bytes = b""
) -> None:
    """Raises Foreign unless `name` in `folder` may be replaced by `content`."""
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
    """Returns the digest of a file; for the manifest, without its file list."""
    try:
        content = read_bytes(path)
        if not manifest:
            return sha256(content)
        return _own_digest({key: value for key, value in json.loads(content).items() if key != FILES})
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""


def put_folder(out: Path, files: Files, manifest: str) -> None:
    """Writes `files`, all listed by `manifest`, to the folder `out`; foreign files in it stay.

    `out` is a path from `resolve_out` that `check_folder` accepted. Files of an earlier write that are not in
    `files` are removed. Raises Foreign and OSError, with the folder unchanged.
    """
    if not os.path.lexists(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(out.parent) as scratch:
            _write_all(scratch / _NEW, files)
            (scratch / _NEW).rename(out)
            sync(out.parent)
        return
    finish(out)
    for left in _writes(out, _BEGUN):
        if left.recorded:
            _discard(left)
    old = own_files(out, manifest)
    for name, content in files.items():
        _check_own(out, name, manifest, old, content)
    with _scratch(out) as scratch:
        new = {name: sha256(content) for name, content in files.items()}
        plan = {"format": FORMAT, "write": scratch.name, "manifest": manifest, "new": new, "old": old}
        content = pretty(plan).encode("utf-8", "surrogatepass")
        try:
            plans.remember(content, out)
            _write(scratch / _BEGUN, content)
            _write_all(scratch / _NEW, files)
            sync(scratch)
            (scratch / _BEGUN).rename(scratch / _READY)
        except BaseException:
            if not (scratch / _READY).exists():
                plans.forget(content)
            raise
        sync(scratch)
        sync(out)
        _carry_out(_Write(scratch, plan, content, recorded=True))


def put_file(out: Path, content: bytes) -> None:
    """Writes a regular file atomically, replacing an existing one. Raises OSError and leaves it unchanged."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(out.parent) as scratch:
        fresh = scratch / _NEW
        _write(fresh, content)
        fresh.replace(out)
        sync(out.parent)


def discard_file(scratch: Path) -> None:
    """Removes the files of a killed `put_file`: the real folder `scratch` with one file. Other files stay."""
    with suppress(OSError):
        if stat.S_ISDIR(scratch.lstat().st_mode):
            if _is_regular(scratch, _NEW):
                (scratch / _NEW).unlink()
            scratch.rmdir()


@contextmanager
def replacing_file(out: Path) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `out` atomically at exit; after an error `out` is unchanged.

    Raises OSError.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(out.parent) as scratch:
        fresh = scratch / _NEW
        with fresh.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(out)


def finish(folder: Path) -> None:
    """Completes committed writes into `folder` that were killed before the end.

    Raises Foreign for one that this user's home did not record, and OSError.
    """
    for write in _writes(folder, _READY):
        if not write.recorded:
            raise Foreign(_not_recorded(write, f"remove {write.path} or choose another --out"))
        _carry_out(write)


def unfinished(folder: Path, command: str) -> str:
    """Returns why the contents of `folder` must not be read: a write into it was cut off; else "".

    `command` is the one that writes there and finishes it. Nothing is changed. A write that another process
    is just completing is waited for, half a second at most.
    """
    end = time.monotonic() + _WAIT_S
    while write := next(_writes(folder, _READY), None):
        if not write.recorded:
            return _not_recorded(
                write, f"take {folder} anew from where it was written, or remove {write.path}"
            )
        if time.monotonic() > end:
            return (
                f"{folder} is half written: a command that wrote there was cut off (its plan is "
                f"{write.path}); run {command} again, which finishes it."
            )
        time.sleep(_STEP_S)
    return ""


def _not_recorded(write: _Write, remedy: str) -> str:
    return (
        f"{write.path.parent} holds a write that was cut off ({write.path.name}) and that this user's record "
        f"in {plans.record_folder()} does not know, so it is not carried out; {remedy}."
    )


def remove(folder: Path, manifest: str) -> None:
    """Removes the files that ragc wrote into `folder`, and the folder if it is then empty. Raises OSError."""
    listed = own_files(folder, manifest)
    for name, digest in sorted(listed.items(), key=lambda item: item[0] == manifest):  # the manifest last
        _remove_own(folder, name, digest, manifest)
    with suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True, slots=True)
class _Write:
    """A write in the folder `path`, with its plan as read and its bytes; `recorded` in this user's home."""

    path: Path
    plan: Mapping[str, Any]
    content: bytes
    recorded: bool


def _writes(folder: Path, state: str) -> Iterator[_Write]:
    """Yields the writes into `folder` in the given `state`: real folders with a plan."""
    with suppress(OSError):
        for path in sorted(folder.glob(f"{APART}*")):
            if stat.S_ISDIR(path.lstat().st_mode) and (write := _write_at(path, state)):
                yield write


def _write_at(path: Path, state: str) -> _Write | None:
    """Returns the write in the folder `path`; None if its file `state` is no plan."""
    file = path / state
    try:
        content = b"" if file.is_symlink() else read_bytes(file)
        plan = json.loads(content)
        whole = plan.get("format") == FORMAT and isinstance(plan["manifest"], str)
        whole = whole and all(map(_is_inside, (*plan["new"], *plan["old"])))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not whole:
        return None
    begun_here = plan.get("write") == path.name and plans.is_recorded(content, path.parent)
    return _Write(path, plan, content, begun_here)


def _carry_out(write: _Write) -> None:
    """Moves the new files of `write` to their names, deletes the files to remove, then `write` itself.

    Finished steps are not repeated. Raises Foreign, before anything is moved, if a file is in the way that
    the plan does not list.
    """
    folder, new, old = write.path.parent, write.plan["new"], write.plan["old"]
    waiting = []
    for name, digest in new.items():
        fresh = write.path / _NEW / name
        if _is_regular(write.path / _NEW, name) and _digest_at(fresh) == digest:
            whole = _is_free(folder, name, write.plan)
            waiting.append(name)
        else:
            whole = _is_regular(folder, name) and _digest_at(folder / name) == digest
        if not whole:
            raise Foreign(
                f"{folder / name} was changed after a write into {folder} was cut off, which therefore "
                f"cannot be finished; move {folder} away or choose another --out."
            )
    for name in waiting:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process may be finishing it too
            (write.path / _NEW / name).replace(folder / name)
    for name in old.keys() - new.keys():
        _remove_own(folder, name, old[name])
    for touched in sorted({(folder / name).parent for name in (*new, *old)} | {folder}):
        if touched.is_dir():
            sync(touched)
    _discard(write)


def _is_regular(folder: Path, name: str) -> bool:
    """Returns whether `name` is a regular file in `folder`, reached without links."""
    try:
        above = [folder / parent for parent in PurePosixPath(name).parents]
        real = all(stat.S_ISDIR(each.lstat().st_mode) for each in above)
        return real and stat.S_ISREG((folder / name).lstat().st_mode)
    except OSError:
        return False


def _is_free(folder: Path, name: str, plan: Mapping[str, Any]) -> bool:
    """Returns whether `name` in `folder` does not exist or is a file that `plan` replaces, reached without
    links.
    """
    for parent in PurePosixPath(name).parents:
        path = folder / parent
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            return False
    if not os.path.lexists(folder / name):
        return True
    if not _is_regular(folder, name):
        return False
    manifest = plan["manifest"] if name == plan["manifest"] else ""
    old, new = str(plan["old"].get(name)), str(plan["new"][name])
    return _digest_at(folder / name, manifest) == old or _digest_at(folder / name) == new


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


def _discard(write: _Write) -> None:
    """Removes a write: the files in its plan, its folders, and its record. Other files stay."""
    for name in write.plan["new"]:
        if _is_regular(write.path / _NEW, name):
            (write.path / _NEW / name).unlink(missing_ok=True)
        for parent in PurePosixPath(name).parents:
            with suppress(OSError):
                (write.path / _NEW / parent).rmdir()
    for state in (_BEGUN, _READY):
        (write.path / state).unlink(missing_ok=True)
    with suppress(OSError):
        sync(write.path)
        write.path.rmdir()
    sync(write.path.parent)  # before the record: a plan without one is refused
    plans.forget(write.content)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Opens a temporary folder in `folder`, removed at exit unless it holds a committed write."""
    scratch = Path(tempfile.mkdtemp(prefix=APART, dir=folder))
    try:
        yield scratch
    finally:
        if not (scratch / _READY).exists():
            shutil.rmtree(scratch, ignore_errors=True)  # the name is random and was unused


def _write_all(folder: Path, files: Files) -> None:
    """Writes `files` to the new folder `folder`, and syncs them and all folders in it to disk."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        if not _is_inside(name):
            raise OSError(errno.EINVAL, "the name leads out of its folder", name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / name, content)
    parents = {parent for name in files for parent in PurePosixPath(name).parents}
    for parent in sorted(parents, key=lambda each: -len(each.parts)):
        sync(folder / parent)


def _write(path: Path, content: bytes) -> None:
    """Writes a new file and syncs it to disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Syncs a file's content, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
