"""Presentations, by python-pptx: a page a slide, shapes from top to bottom, tables, notes of the speaker."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, table, title_of
from ragc.corpora.documents.word import check_package


def read(path: Path) -> Document:
    """Reads all slides except hidden ones, which are noted. Raises UnreadableDocument."""
    import pptx
    from pptx.exc import PackageNotFoundError

    check_package(path)
    try:
        presentation = pptx.Presentation(str(path))
    except (PackageNotFoundError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UnreadableDocument(f"is no presentation that can be read ({error})") from error
    pages, hidden = [], []
    for number, slide in enumerate(presentation.slides, 1):
        if slide.element.get("show") == "0":
            hidden.append(str(number))
        elif text := "\n\n".join(_slide(slide)):
            pages.append(Page(text, f"slide {number}"))
    title = presentation.core_properties.title.strip()
    if title in ("", "PowerPoint Presentation"):
        title = title_of(path)
    notes = (f"left out hidden slides: {', '.join(hidden)}",) if hidden else ()
    return Document(title, tuple(pages), notes)


def _slide(slide: Any) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield f"## {' '.join(heading.text_frame.text.split())}"
    own = heading.shape_id if heading is not None else None
    yield from _shapes(shape for shape in slide.shapes if shape.shape_id != own)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) and frame.text.strip():
        yield f"Notes: {' '.join(frame.text.split())}"


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    """Yields the texts and tables of `shapes`, those of groups among them, in reading order."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif shape.has_text_frame and shape.text_frame.text.strip():
            text = "\n".join(paragraph.text for paragraph in shape.text_frame.paragraphs)
            lines = (line.strip() for line in text.replace("\v", "\n").split("\n"))  # \v breaks a line
            yield "\n".join(escaped(line) for line in lines if line)
