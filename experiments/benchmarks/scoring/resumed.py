"""JSON lines that a measurement adds to as it goes, so that the same command goes on where it was ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self


class Resumed:
    """The file at `path` while a measurement runs.

    `there` are the rows of an earlier run. What a kill left of a last line is removed.
    """

    def __init__(self, path: Path) -> None:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            path.write_bytes(whole)
        self.there: list[dict[str, Any]] = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
        self._path = path

    def __enter__(self) -> Self:
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """Writes `row` at once."""
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()
