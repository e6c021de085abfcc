"""A document as its reader returns it: a title, and Markdown by page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from ragc.errors import RagcError

MAX_BYTES = 100_000_000
"""The largest file that is read, in bytes."""

MAX_TEXT = 64_000_000
"""The most characters that a document may hold."""


class UnreadableDocument(RagcError):
    """A file that cannot be read, with the reason as a sentence without a subject, such as `is empty`."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a document that a citation can name.

    `text` is Markdown. `label` is the part's name in a citation, such as `page 3`, `slide 2` or
    `sheet Prices`; "" if the file has no such parts. `section` is the path of headings at its beginning.
    """

    text: str
    label: str = ""
    section: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. `notes` are sentences on what was left out, such as hidden sheets."""

    title: str
    pages: tuple[Page, ...]
    notes: tuple[str, ...] = field(default=())


def title_of(path: PurePath) -> str:
    """Returns a title made of the name of a file."""
    return re.sub(r"[_\s]+", " ", path.stem).strip() or path.name


def escaped(line: str) -> str:
    """Returns a line of running text so that Markdown reads no heading, table, quote or code in it."""
    return re.sub(r"^(\s*)(#|\||>|```|~~~)", r"\1\\\2", line)


def table(rows: Sequence[Sequence[object]]) -> str:
    """Returns `rows`, the first of them the header, as a Markdown table; "" for no rows."""
    cells = [[_cell(value) for value in row] for row in rows]
    cells = [row for row in cells if any(row)]
    if not cells:
        return ""
    width = max(map(len, cells))
    padded = [[*row, *[""] * (width - len(row))] for row in cells]
    used = [column for column in range(width) if any(row[column] for row in padded)]
    lines = [f"| {' | '.join(row[column] for column in used)} |" for row in padded]
    return "\n".join([lines[0], f"|{' --- |' * len(used)}", *lines[1:]])


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|")
