"""Files of data sets, written small: what their tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import Card, Dataset, ReadRow, load
from ragc.errors import DataError
from tests.support.rows import write_rows


def write_lines(path: Path, *rows: Any) -> Path:
    """The file at `path`, with a row a line."""
    write_rows(path, rows)
    return path


def problems_of(card: Card, read: ReadRow, path: Path) -> tuple[str, ...]:
    """What is wrong with the file at `path`."""
    with pytest.raises(DataError) as caught:
        load(card, read, path)
    return caught.value.problems


@dataclass(frozen=True)
class Reader:
    """Reads rows of a data set, written into the file `name` of a folder."""

    card: Card
    read: ReadRow
    name: str
    write: Callable[..., Path] = write_lines

    def load(self, folder: Path, *rows: Any) -> Dataset:
        """Returns the data set of `rows`."""
        return load(self.card, self.read, self.write(folder / self.name, *rows))

    def problems(self, folder: Path, *rows: Any) -> tuple[str, ...]:
        """Returns what is wrong with `rows`."""
        return problems_of(self.card, self.read, self.write(folder / self.name, *rows))


def official(id: str, stem: str, options: dict[str, str], key: str) -> dict[str, Any]:
    """A row of ARC or OpenBookQA."""
    choices = [{"text": text, "label": label} for label, text in options.items()]
    return {"id": id, "question": {"stem": stem, "choices": choices}, "answerKey": key}
