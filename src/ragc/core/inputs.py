"""Reads input files named by the user: regular files only, up to a size limit; says which are missing.

Reading a device may never end, and opening a FIFO may block for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

MAX_INPUT_BYTES = 256 * 2**20
"""Maximum size in bytes of a file read as a whole: recipes, prompts, compiled programs, rows."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


# Opening a FIFO would block, and following a link could leave the folder.
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class NotRegular(OSError):
    """The path is not a regular file, or the file is too large; `strerror` has the reason."""


class LeadsOut(NotRegular):
    """A link leads out of the folder being read."""


def kind_of(mode: int) -> str:
    """Returns the kind of file with the mode bits `mode`, as a phrase such as `a FIFO`; "" for a regular
    file.
    """
    return next((name for holds, name in _KINDS if holds(mode)), "")


def regular(path: Path) -> Path:
    """Returns `path`, when it is a regular file or a link to one.

    Raises IsADirectoryError for a folder, NotRegular for a device, a FIFO or a socket, otherwise OSError.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise NotRegular(errno.EINVAL, f"it is {kind_of(mode)}, and only regular files are read", str(path))
    return path


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Opens the regular file `path` for reading.

    Raises what `regular` raises; OSError for a link unless `follow`. A file that replaces it meanwhile is
    neither waited for nor read.
    """
    regular(path)
    file = os.fdopen(os.open(path, _READING if follow else _READING | _NO_LINK), "rb")
    if kind := kind_of(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotRegular(errno.EINVAL, f"it is {kind}, and only regular files are read", str(path))
    return file


def read_bytes(path: Path, most: int = MAX_INPUT_BYTES, *, within: Path | None = None) -> bytes:
    """Returns the content of a regular file of at most `most` bytes; links must stay inside `within`, if
    given.

    Raises as `regular`; NotRegular if larger; LeadsOut for a link that leads out of `within`.
    """
    real = path if within is None else path.resolve()
    if within is not None and not real.is_relative_to(within.resolve()):
        raise LeadsOut(errno.EINVAL, f"it is a link that leads out of {within}", str(path))
    with open_regular(real, follow=within is None) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise NotRegular(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))
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
        lost = folder if str(shown) == "." else shown
        return f"{what}: there is no such {noun}, and no folder {str(lost)!r}"
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in folder.iterdir())
    near = get_close_matches(Path(value).name, names, n=1)
    return f"{what}: there is no such {noun}" + (f". Did you mean {str(shown / near[0])!r}?" if near else "")
