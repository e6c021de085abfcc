"""Spreadsheets, by python-calamine: values as they were stored, dates typed; nothing in them runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, table, title_of
from ragc.corpora.documents.word import check_package

ROWS = 40
"""Rows of a sheet in one page; each page repeats the header."""


def read(path: Path) -> Document:
    """Reads the visible sheets and notes the hidden ones. Raises UnreadableDocument."""
    import python_calamine as calamine

    if path.suffix.lower() in (".xlsx", ".xlsm"):
        check_package(path)
    try:
        workbook = calamine.CalamineWorkbook.from_path(str(path))
    except calamine.PasswordError:
        raise UnreadableDocument("is encrypted") from None
    except (calamine.CalamineError, OSError) as error:
        raise UnreadableDocument(f"is no spreadsheet that can be read ({error})") from error
    visible, hidden = list[str](), list[str]()
    for sheet in workbook.sheets_metadata:
        if sheet.typ == calamine.SheetTypeEnum.WorkSheet:
            (visible if sheet.visible == calamine.SheetVisibleEnum.Visible else hidden).append(sheet.name)
    parts = list[Page]()
    for name in visible:
        rows = workbook.get_sheet_by_name(name)
        first = (rows.start or (0, 0))[0] + 1  # empty rows above are left out
        parts += pages(rows.to_python(), f"sheet {name}", first=first)
    notes = (f"left out hidden sheets: {', '.join(hidden)}",) if hidden else ()
    return Document(title_of(path), tuple(parts), notes)


def pages(rows: Sequence[Sequence[object]], label: str, *, first: int = 1) -> Iterator[Page]:
    """Yields `rows` as tables of at most `ROWS` rows below the header, with the numbers of the rows.

    `first` is the number of the first one.
    """
    filled = [(n, row) for n, row in enumerate(rows, first) if any(value not in ("", None) for value in row)]
    if not filled:
        return
    (_, header), body = filled[0], filled[1:]
    if not body:
        yield Page(table([header]), label)
    for at in range(0, len(body), ROWS):
        block = body[at : at + ROWS]
        span = f"rows {block[0][0]} to {block[-1][0]}" if len(body) > ROWS else ""
        yield Page(table([header, *(row for _, row in block)]), ", ".join(filter(None, (label, span))))
