"""Files: the folders of this user, what a user named for reading, and what is written for a user.

Reading takes regular files only, up to a size: a device may never end, and opening a FIFO may block for ever.

A file is written under another name and renamed. A folder is written as a whole: its manifest, a JSON file,
has the SHA-256 of the other files under `files`, and a folder that exists is replaced only if it is empty or
all in it is listed there and unchanged. A kill leaves the old or the new one; between the two renames the old
one is in `.ragc-<random>/old` next to it.

Folders that ragc keeps for itself have the mode 0700; systems other than POSIX have no such modes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from glob import glob
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from ragc.core.digest import pretty
from ragc.errors import UsageError

# The key of a manifest for the digests by name.
FILES = "files"
# What the name of the folder of a write in progress begins with, and what is in it.
APART, NEW = ".ragc-", "new"
# The modes of folders and files that only their owner may read.
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600

_scratch = partial(tempfile.TemporaryDirectory, prefix=APART, ignore_cleanup_errors=True)


class Foreign(UsageError):
    """The existing file or folder was not written by ragc, or was changed since."""


def cache_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    It holds what can be recomputed. A relative `$XDG_CACHE_HOME` is ignored, as its specification requires.
    Raises UsageError for a relative `$RAGC_HOME`, and where no variable is set and this user has no home.
    """
    return home("XDG_CACHE_HOME", ".cache", "cache")


def home(variable: str, default: str, what: str) -> Path:
    """Returns the folder `ragc` in that of `variable`, or in `default` in the home of this user, as
    `cache_home`.
    """
    own, base = os.environ.get("RAGC_HOME", ""), Path(os.environ.get(variable, ""))
    if own and not Path(own).is_absolute():  # the folder of somebody else could contain a record of trust
        raise UsageError(
            f"RAGC_HOME must be an absolute path, since another folder would have another cache; found "
            f"{own!r}, so set it to {str(Path.cwd() / own)!r}."
        )
    try:
        return Path(own) if own else (base if base.is_absolute() else Path.home() / default) / "ragc"
    except RuntimeError:
        raise UsageError(
            f"This user has no home folder to keep the {what} in; set RAGC_HOME to one."
        ) from None


def make_private(folder: Path) -> Path:
    """Creates `folder` and missing folders above it for this user alone, and narrows it. Raises OSError.

    Folders above it that exist keep their modes, and so does one of another user.
    """
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)  # raises where it is no folder
    with suppress(PermissionError):
        folder.chmod(PRIVATE_FOLDER)
    return folder


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Opens the regular file `path` for reading.

    Raises OSError with a reason as `strerror`: for a folder (IsADirectoryError), a device, a FIFO, a socket,
    and for a link unless `follow`. One that becomes a FIFO or a link meanwhile is not waited for or followed.
    """
    mode = (path.stat() if follow else path.lstat()).st_mode
    if not stat.S_ISREG(mode):
        folder = errno.EISDIR, "it is a folder"
        raise OSError(*(folder if stat.S_ISDIR(mode) else (errno.EINVAL, "it is no regular file")), str(path))
    flags = os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    return open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags))


def read_bytes(path: Path, most: int = 256 * 2**20, *, within: Path | None = None) -> bytes:
    """Returns the content of a regular file of at most `most` bytes; links must stay inside `within`, if
    given.

    Raises as `open_regular`, also for a larger one and for a link that leads out of `within`.
    """
    if within is not None and not path.resolve().is_relative_to(within.resolve()):
        raise OSError(errno.EINVAL, f"it is a link that leads out of {within}", str(path))
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))
    return content


def read_text(path: Path, encoding: str = "utf-8", most: int = 256 * 2**20, errors: str = "strict") -> str:
    """Decodes what `read_bytes` returns. Also raises UnicodeDecodeError unless `errors` prevents it."""
    return read_bytes(path, most).decode(encoding, errors)


def missing_file(what: str, value: str, base: Path, noun: str = "file") -> str:
    """Returns the message that `value` (relative to `base`), a `noun`, is missing, with the nearest name
    there.
    """
    folder, shown = (base / value).parent, Path(value).parent
    near = get_close_matches(Path(value).name, sorted(glob("*", root_dir=folder)), n=1)  # noqa: PTH207
    return f"{what}: there is no such {noun}" + (f". Did you mean {str(shown / near[0])!r}?" if near else "")


def sha256(content: bytes) -> str:
    """Returns the SHA-256 of `content`, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def with_manifest(
    name: str,
    about: Mapping[str, Any],
    files: Mapping[str, bytes],
    written: Callable[[Any], bytes] = lambda value: pretty(value).encode("utf-8", "surrogatepass"),
) -> dict[str, bytes]:
    """Returns `files` plus their manifest `name`, which also holds `about`.

    `written` serializes the manifest; by default as indented JSON with sorted keys.
    """
    return {**files, name: written({**about, FILES: {path: sha256(files[path]) for path in files}})}


def own_files(folder: Path, manifest: str) -> dict[str, str]:
    """Returns digests by relative path of the files that `manifest` lists in `folder`; {} without one."""
    try:
        return dict(json.loads(read_bytes(folder / manifest))[FILES])
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def resolve_out(out: str | Path) -> Path:
    """Returns the absolute path of `out`, links resolved. Raises UsageError if there is none."""
    text = os.fspath(out)
    if not text or "\0" in text or text.encode(errors="ignore").decode() != text:
        raise UsageError(f"{text!r} cannot be the path of a file: it is empty, or not plain text.")
    return Path(os.path.realpath(text))


def check_writable(out: Path) -> None:
    """Checks that `out` can be written, by writing and removing a file. Raises UsageError when that fails.

    `out` is a path from `resolve_out`. Nothing is left behind, not even a folder.
    """
    above = next(folder for folder in (out, *out.parents) if os.path.lexists(folder))
    beside = above.parent if above == out and not out.is_dir() else above
    try:
        with _scratch(dir=beside) as scratch:
            _write_all(Path(scratch), {str(out.relative_to(above) / "probe"): bytes(2**16)})
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}; choose another --out.") from None


def check_folder(
    out: Path, manifest: str, *, what: str, ours: Callable[[Path], bool], made: Collection[str] = ()
) -> None:
    """Raises Foreign unless `out` may become a folder that is `what`, such as "a compiled program".

    It may if it does not exist, is an empty folder, or holds one that `ours` recognizes by its content, in
    which every file is listed by its manifest and unchanged; what is in folders called as in `made`, which
    others make of the files, does not count. Raises UsageError where it cannot be written,
    which is tried in the folder above. `out` is a path from `resolve_out`.
    """
    if os.path.lexists(out):
        if not out.is_dir() or (any(out.iterdir()) and not ours(out)):
            raise Foreign(f"{out} exists and is not {what}; choose another --out or move it away.")
        _check_own(out, manifest, made)
        if out.is_mount() or out.samefile(os.curdir) or not os.access(out, os.W_OK):
            raise UsageError(
                f"{out} is replaced as a whole, which a mount point, the current folder or one without the "
                "right to write cannot be; choose another --out, such as a folder in it."
            )
    check_writable(out.parent if os.path.lexists(out) else out)


def _check_own(folder: Path, manifest: str, made: Collection[str] = ()) -> None:
    """Raises Foreign unless every file in `folder` but the manifest is listed in that, and unchanged.

    Files in folders called as in `made` are passed over.
    """
    own = own_files(folder, manifest)
    # what a user changed is named before what a user added
    for path in sorted(
        folder.rglob("*"), key=lambda path: (path.relative_to(folder).as_posix() not in own, path)
    ):
        name = path.relative_to(folder).as_posix()
        if {*made} & {*path.relative_to(folder).parts[:-1]}:
            continue
        is_own = name in own and path.is_file() and sha256(path.read_bytes()) == own[name]
        if path.is_symlink() or not (path.is_dir() or name == manifest or is_own):
            what = "was changed since ragc wrote it" if name in own else "was not written by ragc"
            raise Foreign(f"{path} {what}; move it away or choose another --out.")


def put_folder(out: Path, files: Mapping[str, bytes], manifest: str, made: Collection[str] = ()) -> None:
    """Writes the folder `out` with `files`, all listed by `manifest`, in place of one that ragc wrote.

    `out` is a path from `resolve_out` that `check_folder` accepted, with the same folders `made`, which go.
    Raises Foreign and OSError, with the folder unchanged.
    """
    _check_own(out, manifest, made)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(dir=out.parent) as scratch:
        new, old = Path(scratch, NEW), Path(scratch, "old")
        _write_all(new, files)
        try:
            if os.path.lexists(out):
                shutil.copymode(out, new)
                out.rename(old)
            new.rename(out)
        except BaseException:
            with suppress(OSError):
                old.rename(out)
            raise


def remove(folder: Path, manifest: str) -> None:
    """Removes a folder that ragc wrote; one with anything else in it stays. Raises OSError."""
    with suppress(Foreign):
        _check_own(folder, manifest)
        shutil.rmtree(folder, ignore_errors=True)


def put_file(out: Path, content: bytes, *, private: bool = False) -> None:
    """Writes a regular file atomically, replacing an existing one, for this user alone if `private`.

    Raises OSError and leaves it unchanged.
    """
    with replacing_file(out, private=private) as file:
        file.write(content)


@contextmanager
def replacing_file(out: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `out` atomically at exit; after an error `out` is unchanged.

    Raises OSError.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(dir=out.parent) as scratch:
        new = Path(scratch, NEW)
        new.touch(PRIVATE_FILE if private else 0o666)
        with new.open("wb") as file:
            yield file
        new.replace(out)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes `files` to the new folder `folder`."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
