"""Tables in text files, with commas, semicolons or tabs between the cells."""

from __future__ import annotations

from pathlib import Path

from ragc.corpora.documents.base import Document, UnreadableDocument, title_of
from ragc.corpora.documents.sheets import pages
from ragc.corpora.files.rows import rows


def read(path: Path) -> Document:
    """Reads a table, whose first row is the header, in pages of rows. Raises UnreadableDocument."""
    cells: list[list[object]] = []
    for row in rows(path):
        if row.problems:
            raise UnreadableDocument(f"is no table that can be read ({row.problems[0]})")
        cells = cells or [list(row.values)]
        cells.append(list(row.values.values()))
    return Document(title_of(path), tuple(pages(cells, "")))
