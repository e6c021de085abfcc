"""The rows of one cell of a table, a setting on a data set: a file that grows by a line a question.

A run that was killed continues after the lines in the file; an incomplete last line is dropped. At the end
the lines are in the order of the questions, so the bytes of the file do not depend on interruptions. Each
line carries the mark of its setting, and is a row of `ragc eval --out`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ragc.core.files import put_file, read_bytes
from ragc.core.text import json_text
from ragc.errors import UsageError
from ragc.metrics import runs

MARK = "setting"
"""The key of a row's mark: a digest of program, knobs, models, data and metrics."""


class CellRows:
    """The rows in the file `path` with the mark `mark`, by the id of their question.

    Raises UsageError for a file that holds something else, and for rows of another setting.
    """

    def __init__(self, path: Path, mark: str) -> None:
        self.path, self.mark = path, mark
        self.rows: dict[str, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None
        self._whole: int | None = None
        if os.path.lexists(path):
            self._read()

    def _read(self) -> None:
        try:
            content = read_bytes(self.path)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be read: {error.strerror or error}; move it away or choose "
                "another --out."
            ) from None
        whole, _, torn = content.rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
            self._add(line, number)
        if torn:
            self._whole = len(content) - len(torn)

    def _add(self, line: bytes, number: int) -> None:
        try:
            row = json.loads(line)
            runs.of_rows(str(self.path), [row])
            mark = row[MARK]
        except (ValueError, KeyError, TypeError, RecursionError, UsageError):
            raise UsageError(
                f"Line {number} of {self.path} is no row of this table; move the file away or choose another "
                "--out."
            ) from None
        if mark != self.mark:
            raise UsageError(
                f"{self.path} holds rows of other models, data or settings than these; move it away or "
                "choose another --out."
            )
        if row.get("failure_kind") != "failed":  # whose request is sent again
            self.rows[row["id"]] = row

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row at the end of the file, whose incomplete last line goes. Raises OSError in one
        sentence.
        """
        marked = {**row, MARK: self.mark}
        self.rows[str(row["id"])] = marked
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
            if self._whole is not None:
                self._file.truncate(self._whole)
        self._file.write(_line(marked))
        self._file.flush()

    def close(self) -> None:
        """Closes the file; added rows stay."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def put_in_order(self, ids: Sequence[str]) -> None:
        """Closes the file with the rows of `ids` first, in that order."""
        self.close()
        order = {id: number for number, id in enumerate(ids)}
        names = sorted(self.rows, key=lambda id: (order.get(id, len(order)), id))
        content = b"".join(_line(self.rows[id]) for id in names)
        if not self.path.exists() or self.path.read_bytes() != content:
            put_file(self.path, content)


def _line(row: Mapping[str, Any]) -> bytes:
    return f"{json_text(row)}\n".encode("utf-8", "backslashreplace")
