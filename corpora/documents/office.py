"""Office files, by python-docx, python-pptx and python-calamine; nothing in them runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragc.corpora.documents.base import (
    Document,
    Page,
    UnreadableDocument,
    escaped,
    formula,
    lowered,
    raised,
    real_title,
    table,
    tables,
)

_MACROS = "application/vnd.ms-word.document.macroEnabled.main+xml"
_STRICT = "http://purl.oclc.org/ooxml/"
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_NO_TEXT = frozenset(("del", "moveFrom", "instrText", "Fallback", "rPr", "pPr", "endParaRPr", "rt"))
_LEFT_OUT = ("{*}vanish", "{*}strike", "{*}dstrike")
"""The marks of text that is hidden or struck out."""

_WRITTEN = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": " "}
"""What elements of Office stand for in a line, by name; the text of those inside follows."""


def read_word(path: Path) -> Document:
    """Reads the body in order: headings by their styles, lists, tables, footnotes after their paragraph.

    Text that is hidden or struck out is left out. Raises UnreadableDocument for Strict Open XML.
    """
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.part import PartFactory
    from docx.oxml import parse_xml
    from docx.package import Package
    from docx.parts.document import DocumentPart

    PartFactory.part_type_for[_MACROS] = DocumentPart
    package = Package.open(str(path))
    if any(relation.reltype.startswith(_STRICT) for relation in package.rels.values()):
        raise UnreadableDocument(
            "is in Strict Open XML, which is not read; save it as an ordinary Word document (.docx)"
        )
    document = package.main_document_part.document
    notes = dict[tuple[str, str], str]()
    for relation in document.part.rels.values():
        if relation.reltype in (RELATIONSHIP_TYPE.FOOTNOTES, RELATIONSHIP_TYPE.ENDNOTES):
            for note in parse_xml(relation.target_part.blob):
                notes[_name(note), _attribute(note, "id")] = " ".join(_text(note).split())
    blocks = list(filter(None, _blocks(document.element.body, document, notes)))
    headings = (text.removeprefix("# ") for text in blocks if text.startswith("# "))
    title = real_title(document.core_properties.title) or next(headings, "")
    return Document(title, (Page("\n\n".join(blocks)),))


def read_slides(path: Path) -> Document:
    """Reads a page a slide: shapes from top to bottom, tables, charts as tables, the speaker's notes.

    Hidden slides are noted.
    """
    import pptx

    presentation = pptx.Presentation(str(path))
    slides = dict(enumerate(presentation.slides, 1))
    hidden = [str(number) for number, slide in slides.items() if slide.element.get("show") == "0"]
    pages = [
        Page("\n\n".join(_slide(slide)), f"slide {number}")
        for number, slide in slides.items()
        if str(number) not in hidden
    ]
    notes = (f"left out hidden slides: {', '.join(hidden)}",) if hidden else ()
    return Document(real_title(presentation.core_properties.title), tuple(pages), notes)


def read_sheets(path: Path) -> Document:
    """Reads the visible sheets, values as they were stored, dates typed. Hidden sheets are noted."""
    import python_calamine as calamine

    workbook = calamine.CalamineWorkbook.from_path(str(path))
    pages, hidden = list[Page](), list[str]()
    for sheet in workbook.sheets_metadata:
        if sheet.visible != calamine.SheetVisibleEnum.Visible:
            hidden.append(sheet.name)
        elif sheet.typ == calamine.SheetTypeEnum.WorkSheet:
            rows = workbook.get_sheet_by_name(sheet.name)
            pages += tables(rows.to_python(), f"sheet {sheet.name}", first=(rows.start or (0, 0))[0] + 1)
    notes = (f"left out hidden sheets: {', '.join(hidden)}",) if hidden else ()
    return Document("", tuple(pages), notes)


def _blocks(parent: Any, document: Any, notes: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yields the paragraphs and tables inside `parent` as Markdown; lists of contents are left out."""
    for node in parent:
        name = _name(node)
        if name == "p":
            yield _paragraph(node, document)
            for mark in node.iter("{*}footnoteReference", "{*}endnoteReference"):
                if text := notes.get((_name(mark).removesuffix("Reference"), _attribute(mark, "id"))):
                    yield f"Note: {text}"
        elif name == "tbl":
            yield _table(node)
        elif name not in _NO_TEXT and "Table of Contents" not in node.xpath(
            "./*[local-name()='sdtPr']//*[local-name()='docPartGallery']/@*"
        ):
            yield from _blocks(node, document, notes)


def _paragraph(node: Any, document: Any) -> str:
    from docx.text.paragraph import Paragraph

    text = "\n".join(" ".join(line.split()) for line in _text(node).strip().splitlines())
    style = Paragraph(node, document).style
    names = [""]
    while style is not None:  # styles of one's own rest on those of Word
        names.append(style.name or "")
        style = style.base_style
    level = next(
        (int(heading.group(1)) for name in names if (heading := _HEADING.match(name))), int("Title" in names)
    )
    if not text or level:
        return f"{'#' * min(6, level)} {' '.join(text.split())}" if text else ""
    is_item = any(name.startswith("List") for name in names) or node.find("{*}pPr/{*}numPr") is not None
    return f"- {text}" if is_item else "\n".join(map(escaped, text.splitlines()))


def _table(node: Any) -> str:
    """Returns a table of Word; the text of merged cells stands in each of them."""
    rows = list[list[str]]()
    for row in node.iter("{*}tr"):
        if next(row.iterancestors("{*}tbl")) is not node:
            continue
        cells = list[str]()
        for cell in row.iter("{*}tc"):
            if next(cell.iterancestors("{*}tr")) is row:
                span, merged = cell.find("{*}tcPr/{*}gridSpan"), cell.find("{*}tcPr/{*}vMerge")
                above = (
                    merged is not None
                    and _attribute(merged, "val") != "restart"
                    and rows
                    and rows[-1][len(cells) :]
                )
                cells += [above[0] if above else _text(cell)] * (
                    1 if span is None else min(int(_attribute(span, "val")), 100)
                )
        rows.append(cells)
    return table(rows)


def _slide(slide: Any) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield f"## {' '.join(heading.text_frame.text.split())}"
    yield from _shapes(
        shape for shape in slide.shapes if heading is None or shape.shape_id != heading.shape_id
    )
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) and frame.text.strip():
        yield f"Notes: {' '.join(frame.text.split())}"


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    """Yields the texts and tables of `shapes`, those of groups among them, in reading order."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield table([[_text(cell) for cell in row.iter("{*}tc")] for row in shape.element.iter("{*}tr")])
        elif getattr(shape, "has_chart", False):
            yield from _chart(shape.chart)
        elif shape.has_text_frame:
            lines = (line.strip() for node in shape.element.iter("{*}p") for line in _text(node).splitlines())
            if text := "\n".join(escaped(line) for line in lines if line):
                yield text


def _chart(chart: Any) -> Iterator[str]:
    """Yields the title of a chart, and its values by category and series; a table for equal categories."""
    if chart.has_title and (title := " ".join(chart.chart_title.text_frame.text.split())):
        yield escaped(title)
    series = defaultdict[tuple[tuple[int, str], ...], list[tuple[str, dict[int, str]]]](list)
    for node in chart.element.iter("{*}ser"):
        name = " ".join(value.text or "" for value in node.iterfind("{*}tx//{*}v"))
        categories = _points(node, "cat") | _points(node, "xVal")
        values = _points(node, "val") | _points(node, "yVal")
        series[tuple(categories.items())].append((name, values))
    for points, columns in series.items():
        labels = dict(points)
        numbers = sorted({*labels, *(number for _, values in columns for number in values)})
        rows = [(labels.get(n, ""), *(values.get(n, "") for _, values in columns)) for n in numbers]
        yield table([("", *(name for name, _ in columns)), *rows])


def _points(series: Any, name: str) -> dict[int, str]:
    """Returns the values of a part of a series of a chart by their numbers, without noise of rounding."""
    points = dict[int, str]()
    for point in series.iterfind(f"{{*}}{name}//{{*}}pt"):
        value = point.findtext("{*}v") or ""
        is_noisy = re.fullmatch(r"-?\d+\.\d{10,}", value) is not None
        points.setdefault(int(point.get("idx")), f"{float(value):.12g}" if is_noisy else value)
    return points


def _text(node: Any) -> str:
    """Returns the text inside an element of Word or PowerPoint, formulas and ruby included."""
    name = _name(node)
    if name in _NO_TEXT:
        return ""
    if name == "oMath":
        return formula(node, lambda part: part.text or "")
    text = _WRITTEN.get(name, "") + ((node.text or "") if name == "t" else "".join(map(_text, node)))
    if name == "ruby":
        return f"{text}({''.join(map(_text, node.find('{*}rt')))})"
    properties = node.find("{*}rPr") if name == "r" else None
    if properties is None:
        return text
    marks = [mark for name in _LEFT_OUT for mark in properties.iter(name)]
    is_struck = properties.get("strike", "noStrike") != "noStrike"  # in PowerPoint
    if is_struck or any(_attribute(mark, "val") not in ("0", "false", "off") for mark in marks):
        return ""
    shift = properties.get("baseline") or next(
        (_attribute(mark, "val") for mark in properties.iter("{*}vertAlign")), "0"
    )
    return (
        text
        if shift in ("0", "baseline")
        else lowered(text)
        if shift[0] == "-" or shift == "subscript"
        else raised(text)
    )


def _name(node: Any) -> str:
    """Returns the name of an element without its namespace."""
    return str(node.tag).rpartition("}")[2]


def _attribute(node: Any, name: str) -> str:
    return next((value for key, value in node.items() if key.rpartition("}")[2] == name), "")
