"""The output file of `ragc eval --out`: a regular file, or a device or pipe."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragc.cli import screen
from ragc.core.files import check_writable, open_regular, put_file, resolve_out
from ragc.core.text import json_text
from ragc.errors import UsageError

_KEYS = frozenset({"id", "question", "answers", "prediction", "scores"})
"""The keys of every row."""


class RowsFile:
    """The output file `out`, checked before any question is answered.

    An existing file is replaced atomically if it is empty or holds rows. A character device, a FIFO and
    stdout (`/dev/stdout`) are written to directly. Raises UsageError for anything else, and when a test write
    fails.
    """

    def __init__(self, out: str) -> None:
        self._out, self._stream, self._path = out, "", Path()
        if out == "-":
            raise UsageError("--out names a file, found '-'; /dev/stdout leads the rows to stdout.")
        try:
            mode = os.stat(out).st_mode  # noqa: PTH116 - what `/dev/stdout` leads to has no path
        except (OSError, ValueError):
            mode = 0
        if mode and _is_stdout(out):
            self._stream = "stdout"
        elif stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
            self._stream = out
        else:
            self._path = resolve_out(out)
            if os.path.lexists(self._path):
                self._check()
            check_writable(self._path)

    def _check(self) -> None:
        """Raises UsageError unless the existing file holds rows."""
        if not self._path.is_file():
            raise UsageError(f"--out {self._out} is no file; name a file for the rows.")
        if not _holds_rows(self._path):
            raise UsageError(
                f"--out {self._out} exists and holds no rows of `ragc eval`, so it is not replaced; choose "
                "another file or move it away."
            )

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes `rows`, one per line. Raises OSError."""
        text = "".join(f"{json_text(row)}\n" for row in rows)
        content = text.encode("utf-8", "backslashreplace")
        if self._stream == "stdout":
            screen.results().write(content.decode())
        elif self._stream:
            with Path(self._stream).open("wb") as file:
                file.write(content)
        else:
            put_file(self._path, content)


def _is_stdout(out: str) -> bool:
    try:
        return os.path.samestat(os.stat(out), os.fstat(screen.results().fileno()))  # noqa: PTH116
    except (OSError, ValueError, AttributeError):
        return False


def _holds_rows(path: Path) -> bool:
    """Returns whether every line of the file is a row, or the file is empty."""
    try:
        with open_regular(path) as file:
            return all(_is_row(line) for line in file if line.strip())
    except (OSError, ValueError, RecursionError):
        return False


def _is_row(line: bytes) -> bool:
    row = json.loads(line)
    return isinstance(row, dict) and row.keys() >= _KEYS
