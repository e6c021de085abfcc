"""Files: the folders of this user, what a user named for reading, and what is written for a user.

Reading takes regular files only, up to a size: a device may never end, and opening a FIFO may block for ever.

A file is written under another name and renamed. A folder is written as a whole: its manifest, a JSON file,
has the SHA-256 of every file under `files`, and a folder that exists is replaced only if it is empty or all
in it is listed there and unchanged. So a kill leaves the old or the new one. At the one moment when there is
neither, the old one is in `.ragc-<random>/old` beside it, and `check_folder` puts it back.

Files that ragc keeps for itself have the modes 0600 and 0700; systems other than POSIX have no such modes.
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
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from ragc.core.digest import pretty
from ragc.errors import UsageError

# The key of a manifest for the digests by name.
FILES = "files"
# What the name of the folder of a write in progress begins with, and what is in it.
APART, NEW, _OLD = ".ragc-", "new", "old"
# The modes of folders and files that only their owner may read.
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
# The size in bytes up to which a file is read as a whole: recipes, prompts, compiled programs, rows.
MAX_INPUT_BYTES = 256 * 2**20

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


class Foreign(UsageError):
    """The existing file or folder was not written by ragc, or was changed since."""


@contextmanager
def doing(name: str, remedy: str = "") -> Iterator[None]:
    """Notes the step on an exception that leaves the block, unless an inner block did.

    `name` begins a sentence, such as "Writing the rows to rows.jsonl"; `remedy` ends one, or is empty.
    """
    try:
        yield
    except Exception as error:
        error.__dict__.setdefault("ragc_activity", (name, remedy))
        raise


def activity_of(error: BaseException | None) -> tuple[str, str] | None:
    """Returns name and remedy of the innermost step noted on `error` or in its cause chain; None without
    one.
    """
    found: tuple[str, str] | None = None
    for _ in range(100):  # a chain can be a ring
        found = getattr(error, "ragc_activity", found)
        error = (error.__cause__ or error.__context__) if error else None
    return found


def cache_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    It holds what can be recomputed. A relative `$XDG_CACHE_HOME` is ignored, as its specification requires.
    Raises UsageError for a relative `$RAGC_HOME`, and where no variable is set and this user has no home.
    """
    return _home("XDG_CACHE_HOME", ".cache", "cache")


def state_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_STATE_HOME/ragc`, else `~/.local/state/ragc`. Not created here.

    It holds what cannot be recomputed. Raises UsageError as `cache_home` does.
    """
    return _home("XDG_STATE_HOME", ".local/state", "record of used questions")


def _home(variable: str, default: str, what: str) -> Path:
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

    Folders above it that exist keep their modes.
    """
    if not os.path.lexists(folder.parent):
        make_private(folder.parent)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)  # raises where it is no folder
    narrow(folder)
    return folder


def narrow(path: Path) -> None:
    """Takes the rights of group and others from `path`, if it is a file or folder of this user.

    Links are not changed, nor are files of other users, or that cannot be changed.
    """
    with suppress(OSError, AttributeError):  # the latter without POSIX
        seen = path.lstat()
        if seen.st_uid == os.geteuid() and seen.st_mode & 0o077 and kind_of(seen.st_mode) in ("", "a folder"):
            path.chmod(stat.S_IMODE(seen.st_mode) & 0o700)


def narrow_tree(folder: Path) -> None:
    """Takes the rights of group and others from `folder` and everything in it, as `narrow` does."""
    for here, _, names in os.walk(folder):  # what another process has just removed is no error
        for path in (Path(here), *(Path(here, name) for name in names)):
            narrow(path)


def kind_of(mode: int) -> str:
    """Returns the kind of file with these mode bits, as a phrase such as `a FIFO`; "" for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Opens the regular file `path` for reading.

    Raises OSError with a reason as `strerror`: for a folder (IsADirectoryError), a device, a FIFO, a socket,
    and for a link unless `follow`.
    """
    if kind := kind_of(path.stat().st_mode):
        raise OSError(
            errno.EISDIR if kind == "a folder" else errno.EINVAL,
            f"it is {kind}{'' if kind == 'a folder' else ', and only regular files are read'}",
            str(path),
        )
    # A FIFO that takes its place now must not block.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0)), "rb")


def read_bytes(path: Path, most: int = MAX_INPUT_BYTES, *, within: Path | None = None) -> bytes:
    """Returns the content of a regular file of at most `most` bytes; links must stay inside `within`, if
    given.

    Raises as `open_regular`, also for a larger one and for a link that leads out of `within`.
    """
    if within is not None and not path.resolve().is_relative_to(within.resolve()):
        raise OSError(errno.EINVAL, f"it is a link that leads out of {within}", str(path))
    with open_regular(path if within is None else path.resolve(), follow=within is None) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))
    return content


def read_text(
    path: Path, encoding: str = "utf-8", most: int = MAX_INPUT_BYTES, errors: str = "strict"
) -> str:
    """Decodes what `read_bytes` returns. Also raises UnicodeDecodeError unless `errors` prevents it."""
    return read_bytes(path, most).decode(encoding, errors)


def exists(path: Path) -> bool:
    """Returns whether `path` exists; False for a name that the system does not allow."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for a name that is too long


def missing_file(what: str, value: str, base: Path, noun: str = "file") -> str:
    """Returns the message that `value` (relative to `base`), a `noun`, is missing, with the nearest name
    there.
    """
    folder, shown = (base / value).parent, Path(value).parent
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        return f"{what}: there is no such {noun}, and no folder {str(folder if shown == Path() else shown)!r}"
    near = get_close_matches(Path(value).name, (path.name for path in sorted(folder.glob("*"))), n=1)
    return f"{what}: there is no such {noun}" + (f". Did you mean {str(shown / near[0])!r}?" if near else "")


def sha256(content: bytes) -> str:
    """Returns the SHA-256 of `content`, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def with_manifest(
    name: str,
    about: Mapping[str, Any],
    files: Mapping[str, bytes],
    written: Callable[[Any], bytes] | None = None,
) -> dict[str, bytes]:
    """Returns `files` plus their manifest `name`, which also holds `about`. The manifest's own digest covers
    `about`.

    `written` serializes the manifest; by default as indented JSON with sorted keys.
    """
    listed = {each: sha256(content) for each, content in files.items()} | {name: sha256(_json(_about(about)))}
    return {**files, name: (written or _json)({**about, FILES: listed})}


def _about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key != FILES}


def _json(value: Any) -> bytes:
    return pretty(value).encode("utf-8", "surrogatepass")


def own_files(folder: Path, manifest: str) -> dict[str, str]:
    """Returns digests by relative path of the files that `manifest` lists in `folder`; {} without one."""
    try:
        listed = json.loads(read_bytes(folder / manifest))[FILES]
        return {name: str(digest) for name, digest in listed.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def resolve_out(out: str | Path) -> Path:
    """Returns the absolute path of `out`, links resolved. Raises UsageError if there is none."""
    text = os.fspath(out)
    try:
        text.encode("utf-8")
        path = Path(os.path.realpath(text or "\0"))  # else it would be the current folder
    except ValueError:
        raise UsageError(f"{text!r} cannot be the path of a file: it is empty, or not plain text.") from None
    if os.path.islink(text) and not os.path.exists(path):  # noqa: PTH110, PTH114 - which raise for a long name
        raise UsageError(f"{text} is a link to {path}, which is not there; choose another --out.")
    return path


def check_writable(out: Path) -> None:
    """Checks that `out` can be written, by writing and removing a file. Raises UsageError when that fails.

    `out` is a path from `resolve_out`. Nothing is left behind, not even a folder.
    """
    above = next(folder for folder in (out, *out.parents) if os.path.lexists(folder))
    missing = out.relative_to(above).parts
    try:
        with _scratch(above if missing or above.is_dir() else above.parent) as scratch:
            _write_all(scratch / NEW, {"/".join([*missing, "probe"]): bytes(2**16)})
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}; choose another --out.") from None


def check_folder(
    out: Path, manifest: str, *, what: str, ours: Callable[[Path], bool], names: Callable[[str], object]
) -> None:
    """Raises Foreign unless `out` may become a folder that is `what`, such as "a compiled program".

    It may if it does not exist, is an empty folder, or holds one that `ours` recognizes by its content, in
    which every file is listed by its manifest, is unchanged, and has one of the `names` that ragc gives.
    Raises UsageError where it cannot be written, which is tried in the folder above: what a kill leaves of
    that must not be in `out`. `out` is a path from `resolve_out`.
    """
    for scratch in out.parent.glob(f"{APART}*"):  # of a process killed while it exchanged the two
        if not os.path.lexists(out) and (scratch / NEW).is_dir() and (scratch / _OLD / out.name).is_dir():
            (scratch / _OLD / out.name).rename(out)
    if os.path.lexists(out):
        if not stat.S_ISDIR(out.lstat().st_mode) or (any(out.iterdir()) and not ours(out)):
            raise Foreign(f"{out} exists and is not {what}; choose another --out or move it away.")
        _check_own(out, manifest, names)
        if out.is_mount() or out.samefile(os.curdir) or not os.access(out, os.W_OK):
            raise UsageError(
                f"{out} is replaced as a whole, which a mount point, the current folder or one without the "
                "right to write cannot be; choose another --out, such as a folder in it."
            )
    check_writable(out.parent if os.path.lexists(out) else out)


def _check_own(folder: Path, manifest: str, names: Callable[[str], object] = bool) -> None:
    """Raises Foreign unless all that is in `folder` is listed in its manifest, and unchanged."""
    own = own_files(folder, manifest)
    listed = {name: own[name] for name in own if names(name)}
    above = {str(parent) for name in listed for parent in PurePosixPath(name).parents}
    # What a user changed is named before what a user added.
    for path in sorted(folder.rglob("*"), key=lambda one: (str(one.relative_to(folder)) not in listed, one)):
        name, kind = path.relative_to(folder).as_posix(), kind_of(path.lstat().st_mode)
        if name not in above if kind == "a folder" else kind or not _is_as_written(path, listed.get(name)):
            what = "was changed since ragc wrote it" if name in listed else "was not written by ragc"
            raise Foreign(f"{path} {what}; move it away or choose another --out.")


def _is_as_written(path: Path, digest: str | None) -> bool:
    """Returns whether the content of `path` has this `digest`; that of a manifest is without its files."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        content = read_bytes(path)
        return sha256(content) == digest or sha256(_json(_about(json.loads(content)))) == digest
    return False


def put_folder(out: Path, files: Mapping[str, bytes], manifest: str) -> None:
    """Writes the folder `out` with `files`, all listed by `manifest`, in place of one that ragc wrote.

    `out` is a path from `resolve_out` that `check_folder` accepted. Raises Foreign and OSError, with the
    folder unchanged.
    """
    _check_own(out, manifest)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(out.parent) as scratch:
        new, old = scratch / NEW, scratch / _OLD / out.name
        _write_all(new, files)
        try:
            if os.path.lexists(out):
                shutil.copymode(out, new)
                old.parent.mkdir()
                out.rename(old)
            new.rename(out)
        except BaseException:
            with suppress(OSError):
                old.rename(out)
            raise
        remove(old, manifest)


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
    with _scratch(out.parent) as scratch:
        (scratch / NEW).touch(PRIVATE_FILE if private else 0o666)
        with (scratch / NEW).open("wb") as file:
            yield file
        (scratch / NEW).replace(out)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Opens a temporary folder in `folder`, removed at exit with the new files that were not moved away."""
    scratch = Path(tempfile.mkdtemp(prefix=APART, dir=folder))
    try:
        yield scratch
    finally:
        if not (scratch / _OLD).is_dir() or not any((scratch / _OLD).iterdir()):
            shutil.rmtree(scratch, ignore_errors=True)  # the name is random and was unused


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes `files` to the new folder `folder`."""
    for name, content in files.items():
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise OSError(errno.EINVAL, "the name leads out of its folder", name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
