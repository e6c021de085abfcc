"""Files that people name as input: only regular ones are read, and none without a bound.

A device may never end and a FIFO may never begin.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST = 256 * 2**20
"""Bytes of a file that is read as a whole: recipes, prompts, compiled programs, rows."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


# A pipe in the place of a file would be waited for, a link would lead elsewhere.
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class NotRegular(OSError):
    """What was named is no regular file, or larger than may be read; `strerror` says which."""


class LeadsOut(NotRegular):
    """A link leads out of the folder that was to be read."""


def kind_of(mode: int) -> str:
    """What a file with the mode bits `mode` is, for people: `a FIFO`; "" for a regular one."""
    return next((name for holds, name in _KINDS if holds(mode)), "")


def regular(path: Path) -> Path:
    """`path`, when it is a regular file or a link to one.

    Raises IsADirectoryError for a folder, NotRegular for a device, a FIFO and a socket, else OSError.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise NotRegular(errno.EINVAL, f"it is {kind_of(mode)}, and only regular files are read", str(path))
    return path


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """The regular file `path`, open for reading. Raises as `regular`; OSError for a link unless `follow`.

    What takes its place meanwhile is neither waited for nor read.
    """
    regular(path)
    file = os.fdopen(os.open(path, _READING if follow else _READING | _NO_LINK), "rb")
    if kind := kind_of(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotRegular(errno.EINVAL, f"it is {kind}, and only regular files are read", str(path))
    return file


def read_bytes(path: Path, most: int = LARGEST, *, within: Path | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes; `within` a folder, links lead nowhere else.

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


def read_text(path: Path, encoding: str = "utf-8", most: int = LARGEST, errors: str = "strict") -> str:
    """As `read_bytes`, decoded. Raises UnicodeDecodeError too, unless `errors` says otherwise."""
    return read_bytes(path, most).decode(encoding, errors)
