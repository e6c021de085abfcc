"""Rows of JSON in files, an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """Writes `rows` to the file `path`, a JSON value a line, and returns the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of the file `path`, one a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
