"""Word documents, by python-docx: headings by their styles, lists, tables."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import IO, Any

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, table, title_of

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_AROUND = ("sdt", "ins", "moveTo", "smartTag", "customXml", "fldSimple", "bdo", "dir")
"""Elements around text that python-docx passes over: content controls, insertions, marks, fields."""
_TYPE = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_TYPE_WITH_MACROS = b"application/vnd.ms-word.document.macroEnabled.main+xml"


def read(path: Path) -> Document:
    """Reads the body in order. Raises UnreadableDocument for a file that is encrypted or damaged."""
    import docx
    from docx.opc.exceptions import PackageNotFoundError

    check_package(path)
    try:
        document = docx.Document(_without_macros(path) if path.suffix.lower() == ".docm" else str(path))
    except (PackageNotFoundError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UnreadableDocument(f"is no Word document that can be read ({error})") from error
    _unwrap(document.element.body)
    blocks = [block for item in document.iter_inner_content() if (block := _block(item))]
    title = document.core_properties.title.strip() or next(
        (text.removeprefix("# ") for text in blocks if text.startswith("# ")), title_of(path)
    )
    return Document(title, (Page("\n\n".join(blocks)),))


def _without_macros(path: Path) -> IO[bytes]:
    """Returns the package with the content type of a plain document: python-docx takes no other."""
    plain = io.BytesIO()
    with zipfile.ZipFile(path) as package, zipfile.ZipFile(plain, "w") as copy:
        for name in package.namelist():
            copy.writestr(name, package.read(name).replace(_TYPE_WITH_MACROS, _TYPE))
    return plain


def check_package(path: Path) -> None:
    """Raises UnreadableDocument for an Office file that is encrypted, truncated, or unpacks to too much."""
    with path.open("rb") as file:
        if file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            raise UnreadableDocument("is encrypted, or of a format from before 2007")
    try:
        with zipfile.ZipFile(path) as package:
            size = sum(entry.file_size for entry in package.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise UnreadableDocument("is truncated or damaged") from error
    if size > 500_000_000:
        raise UnreadableDocument(f"unpacks to {size // 1_000_000} MB, and 500 MB are read at most")


def _unwrap(body: Any) -> None:
    """Puts the content of the elements `_AROUND` text in their place; lists of contents are left out."""
    from docx.oxml.ns import qn

    for node in list(body.iter(*(qn(f"w:{name}") for name in _AROUND))):
        parent = node.getparent()
        held = node.find(qn("w:sdtContent")) if node.tag == qn("w:sdt") else node
        gallery = node.find(f"{qn('w:sdtPr')}/{qn('w:docPartObj')}/{qn('w:docPartGallery')}")
        listed = gallery is not None and gallery.get(qn("w:val")) == "Table of Contents"
        for child in () if held is None or listed else list(held):
            node.addprevious(child)
        parent.remove(node)


def _cell(cell: Any) -> str:
    """Returns the text of a cell; a table in it as `cell, cell; cell, cell`."""
    texts = []
    for item in cell.iter_inner_content():
        nested = hasattr(item, "rows")
        texts.append(
            "; ".join(", ".join(map(_cell, row.cells)) for row in item.rows) if nested else item.text
        )
    return "\n".join(texts)


def _block(item: Any) -> str:
    """Returns a paragraph or table as Markdown."""
    if hasattr(item, "rows"):
        return table([[_cell(cell) for cell in row.cells] for row in item.rows])
    text = " ".join(item.text.split())
    if not text:
        return ""
    style = (item.style.name or "") if item.style is not None else ""
    if style == "Title":
        return f"# {text}"
    if heading := _HEADING.match(style):
        return f"{'#' * min(6, int(heading.group(1)))} {text}"
    if style.startswith("List"):
        return f"- {text}"
    return "\n".join(map(escaped, item.text.strip().splitlines()))
