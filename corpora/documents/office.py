"""Office files, by python-docx, python-pptx and python-calamine; nothing in them runs."""

from __future__ import annotations

import io
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

from ragc.corpora.documents.base import (
    Document,
    Page,
    UnreadableDocument,
    escaped,
    formula,
    real_title,
    repeated,
    shifted,
    table,
    tables,
)

_MACROS = "application/vnd.ms-word.document.macroEnabled.main+xml"
_STRICT = "http://purl.oclc.org/ooxml/"
_HEADING = re.compile(r"^(?:heading (\d)|title$)", re.IGNORECASE | re.MULTILINE)
_LIST = re.compile("^List (?:Bullet|Number)", re.MULTILINE)
_NO_TEXT = frozenset(
    ("del", "moveFrom", "instrText", "Fallback", "rPr", "pPr", "tcPr", "rubyPr", "endParaRPr")
)
_CONTENTS = re.compile(r"^toc \d", re.IGNORECASE | re.MULTILINE)
_OFF = frozenset(("0", "false", "off", "noStrike"))
_PLAIN = " !%&()+,./0123456789:;<=>?"
_CODES = f"{_PLAIN}ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".encode() + bytes.fromhex(
    "2d a3a5abacaeb0b1b2b3b4b5b6b7b8b9babbbc c7c8cccdce d0d1d6d7d8d9da dbde e5f2 fbfcfdfe"
)
_SIGNS = (
    f"{_PLAIN}ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ-≤∞↔←→°±″≥×∝∂•÷≠≡≈…∩∪⊂⊆∈∠∇√⋅¬∧∨⇔⇒∑∫✗✓☒☒"
)
_SYMBOLS = {0xF000 + code: sign for code, sign in zip(_CODES, _SIGNS, strict=True)}
"""The signs of the fonts Symbol and, where it has none, Wingdings, which Office writes as private letters."""

_BOXES = {0xF0A8: "☐", 0xF06F: "☐"}
"""The empty boxes of the font Wingdings."""

_NOISY = re.compile(r"-?\d+\.\d{10,}")
_WRITTEN = {"tab": " {}", "br": "\n{}", "cr": "\n{}", "noBreakHyphen": "-{}", "p": " {}", "rt": "({})"}
"""How elements of Office stand in a line, by name, with the text of those inside."""

_Box = tuple[tuple[tuple[int, int], tuple[int, int]], str]
"""The top and bottom of a shape and its left and right side, and its text."""


def read_word(path: Path) -> Document:
    """Reads the body in order: headings by their styles, lists, tables, footnotes after their paragraph.

    Text that is hidden or struck out is left out. Raises UnreadableDocument for Strict Open XML.
    """
    from docx.opc.part import PartFactory
    from docx.oxml import parse_xml
    from docx.package import Package
    from docx.parts.document import DocumentPart

    PartFactory.part_type_for[_MACROS] = DocumentPart
    try:
        package = Package.open(str(path))
    except KeyError:  # a picture or another part that the file names is missing
        package = Package.open(_without_lost_parts(path))
    if any(relation.reltype.startswith(_STRICT) for relation in package.rels.values()):
        raise UnreadableDocument(
            "is in Strict Open XML, which is not read; save it as an ordinary Word document (.docx)"
        )
    document = cast("DocumentPart", package.main_document_part).document
    notes = {
        (_name(note), _attribute(note, "id")): " ".join(_text(note).split())
        for relation in document.part.rels.values()
        if relation.reltype.endswith(("/footnotes", "/endnotes"))
        for note in parse_xml(relation.target_part.blob)
    }
    blocks = list(filter(None, _blocks(document.element.body, document, notes)))
    headings = (text.removeprefix("# ") for text in blocks if text.startswith("# "))
    title = real_title(document.core_properties.title) or next(headings, "")
    comments = len(document.comments)
    left_out = (f"left out comments: {comments}",) if comments else ()
    return Document(title, (Page("\n\n".join(blocks)),), left_out)


def _without_lost_parts(path: Path) -> io.BytesIO:
    """Returns a copy of an Office file in which nothing refers to parts that are missing."""
    from docx.oxml import parse_xml
    from lxml import etree

    copy = io.BytesIO()
    with ZipFile(path) as source, ZipFile(copy, "w") as target:
        names = {*source.namelist()}
        for name in names:
            content = source.read(name)
            if name.endswith(".rels"):
                root = parse_xml(content)
                for relation in list(root):
                    part = posixpath.join("/", name, "../..", relation.get("Target", ""))
                    is_inside = relation.get("TargetMode") != "External"
                    if is_inside and posixpath.normpath(part)[1:] not in names:
                        root.remove(relation)
                content = etree.tostring(root)
            target.writestr(name, content)
    return copy


def read_slides(path: Path) -> Document:
    """Reads a page a slide: shapes column by column, tables, charts as tables, the speaker's notes.

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
    pages, hidden, notes = list[Page](), list[str](), list[str]()
    for sheet in workbook.sheets_metadata:
        if sheet.visible != calamine.SheetVisibleEnum.Visible:
            hidden.append(sheet.name)
        elif sheet.typ == calamine.SheetTypeEnum.WorkSheet:
            try:
                pages += _sheet(workbook.get_sheet_by_name(sheet.name))
            except calamine.CalamineError as error:
                notes.append(f"sheet {sheet.name} cannot be read ({error})")
    notes += [f"left out hidden sheets: {', '.join(hidden)}"] if hidden else []
    return Document("", tuple(pages), tuple(notes))


def _sheet(sheet: Any) -> list[Page]:
    """Returns the pages of a sheet; short texts of merged cells stand in each of their rows."""
    rows, (top, left) = sheet.to_python(), sheet.start or (0, 0)
    for (first, column), (last, _) in sheet.merged_cell_ranges or ():
        merged = rows[max(0, first - top) : last + 1 - top] if left <= column < left + sheet.width else []
        for row in merged[1:]:
            row[column - left] = repeated(str(merged[0][column - left]))
    return tables(rows, f"sheet {sheet.name}", first=top + 1)


def _blocks(parent: Any, document: Any, notes: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yields the paragraphs and tables inside `parent` as Markdown; lists of contents are left out."""
    for node in parent:
        name = _name(node)
        if name == "p":
            yield _paragraph(node, document)
            for mark in node.iter("{*}footnoteReference", "{*}endnoteReference"):
                if text := notes.get((_name(mark).removesuffix("Reference"), _attribute(mark, "id"))):
                    yield f"Note: {text}"
        elif name == "tbl" and node.find(".//{*}tc//{*}tbl") is None:  # one around tables is only their place
            yield _table(node)
        elif name not in _NO_TEXT and "Table of Contents" not in node.xpath(
            "./*[local-name()='sdtPr']//*[local-name()='docPartGallery']/@*"
        ):
            yield from _blocks(node, document, notes)


def _paragraph(node: Any, document: Any) -> str:
    """Returns a paragraph as Markdown; its style, or one of Word's that it rests on, says what it is."""
    from docx.text.paragraph import Paragraph

    text = "\n".join(" ".join(line.split()) for line in _text(node).strip().splitlines())
    style: Any = Paragraph(node, document).style
    names = ""
    while style is not None:
        names, style = f"{names}\n{style.name}", style.base_style
    if not text or _CONTENTS.search(names):
        return ""
    if heading := _HEADING.search(names):
        return f"{'#' * min(6, int(heading[1]) if heading[1] else 1)} {' '.join(text.split())}"
    lists = [_attribute(number, "val") for number in node.iterfind("{*}pPr/{*}numPr/{*}numId")]
    is_item = lists != ["0"] and (lists or _LIST.search(names))  # 0 takes a paragraph out of its list
    return f"- {text}" if is_item else "\n".join(map(escaped, text.splitlines()))


def _table(node: Any) -> str:
    """Returns a table of Word or PowerPoint; a short text of a cell over several rows stands in each of them,
    and that of one over several columns in the first.
    """
    rows = list[list[tuple[str, bool]]]()  # each cell, and whether it only continues the one left of it
    for row in node.iter("{*}tr"):
        cells = [("", False)] * getattr(row, "grid_before", 0)
        for cell in row.iter("{*}tc"):
            is_more = getattr(cell, "hMerge", False)
            above = rows[-1][len(cells) :] if rows and cell.vMerge in (True, "continue") else []
            text = repeated(above[0][0]) if above else " ".join(_text(cell).split())
            cells.append(("" if is_more else text, is_more))
            cells += [("", True)] * (min(getattr(cell, "grid_span", 1), 100) - 1)
        rows.append(cells if len(list(row.iter("{*}tc"))) > 1 else cells[:1])
    columns = [
        column
        for column in zip_longest(*rows, fillvalue=("", True))
        if not all(is_more for _, is_more in column)
    ]
    return table([[text for text, _ in row] for row in zip(*columns, strict=True)])


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
    """Yields the texts and tables of `shapes` in reading order: columns apart, a group in its place."""
    pending = [
        [
            (
                (
                    (shape.top or 0, (shape.top or 0) + (shape.height or 0)),
                    (shape.left or 0, (shape.left or 0) + (shape.width or 0)),
                ),
                text,
            )
            for shape in shapes
            if (text := "\n\n".join(filter(None, _shape(shape))))
        ]
    ]
    while pending:  # a recursive XY-cut: in two at the widest gap, the upper or left part first
        boxes, widest, parts = pending.pop(), -1, list[list[_Box]]()
        for axis in (0, 1):
            ordered = sorted(boxes, key=lambda box: box[0][axis])
            ends = accumulate((spans[axis][1] for spans, _ in ordered), max)
            for number, (end, (spans, _)) in enumerate(zip(ends, ordered[1:], strict=False), 1):
                if spans[axis][0] - end > widest:
                    widest, parts = spans[axis][0] - end, [ordered[number:], ordered[:number]]
        pending += parts
        if not parts:
            yield from (text for _, text in sorted(boxes, key=lambda box: [start for start, _ in box[0]]))


def _shape(shape: Any) -> Iterator[str]:
    """Yields the texts and tables of a shape, or of those in a group."""
    from pptx.oxml import parse_xml

    if hasattr(shape, "shapes"):
        yield from _shapes(shape.shapes)
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart)
    elif getattr(shape, "has_table", False):
        yield _table(next(shape.element.iter("{*}tbl")))
    else:
        element = shape.element
        for diagram in element.iter("{*}relIds"):
            element = parse_xml(shape.part.related_part(_attribute(diagram, "dm")).blob)
        lines = (line.strip() for node in element.iter("{*}p") for line in _text(node).splitlines())
        yield "\n".join(escaped(line) for line in lines if line)


def _chart(chart: Any) -> Iterator[str]:
    """Yields the title of a chart, and a table of its values by category and series."""
    if chart.has_title and (title := " ".join(chart.chart_title.text_frame.text.split())):
        yield escaped(title)
    names, rows = list[str](), defaultdict[tuple[int, str], dict[int, str]](dict)
    for number, series in enumerate(chart.element.iter("{*}ser")):
        names.append(" ".join(value.text or "" for value in series.iterfind("{*}tx//{*}v")))
        labels = _points(series, "cat") | _points(series, "xVal")
        values = _points(series, "val") | _points(series, "yVal")
        for place in {*labels, *values}:
            rows[place, labels.get(place, "")][number] = values.get(place, "")
    body = [[label, *(row.get(n, "") for n in range(len(names)))] for (_, label), row in sorted(rows.items())]
    yield table([["", *names], *body])


def _points(series: Any, name: str) -> dict[int, str]:
    """Returns the values of a part of a series of a chart by their numbers, without noise of rounding."""
    points = [(int(p.get("idx")), p.findtext("{*}v") or "") for p in series.iterfind(f"{{*}}{name}//{{*}}pt")]
    return {
        number: f"{float(value):.12g}" if _NOISY.fullmatch(value) else value
        for number, value in reversed(points)  # of levels of categories the first is the lowest
    }


def _text(node: Any) -> str:
    """Returns the text inside an element of Word or PowerPoint, formulas, ruby and form fields included."""
    name = _name(node)
    if name in _NO_TEXT:
        return ""
    if name in _TEXTS:
        return _TEXTS[name](node)
    parts = map(_text, reversed(node) if name == "ruby" else node)  # Word has the reading before the letters
    text = _WRITTEN.get(name, "{}").format("".join(parts))
    properties = node.find("{*}rPr") if name == "r" else None
    if properties is None:
        return text
    marks = [_attribute(mark, "val") for mark in properties.iter("{*}vanish", "{*}strike", "{*}dstrike")]
    if not _OFF.issuperset([*marks, properties.get("strike", "off")]):  # hidden or struck out
        return ""
    shifts = (_attribute(mark, "val") for mark in properties.iter("{*}vertAlign"))
    return shifted(text, properties.get("baseline") or next(shifts, ""))


def _symbol(node: Any) -> str:
    signs = {**_SYMBOLS, **_BOXES} if _attribute(node, "font").startswith("Wingdings") else _SYMBOLS
    return signs.get(int(_attribute(node, "char") or "0", 16) | 0xF000, "")


def _check_box(node: Any) -> str:
    states = [_attribute(state, "val") for state in node.iter("{*}default", "{*}checked")]
    return "☐ " if not states or states[-1] in _OFF else "☒ "


def _drop_down(node: Any) -> str:
    """Returns the entry of a list that is chosen, by its number; the first one if none is."""
    entries = [_attribute(entry, "val") for entry in node.iter("{*}listEntry")]
    numbers = [int(_attribute(number, "val")) for number in node.iter("{*}default", "{*}result")]
    return entries[[0, *numbers][-1]] if entries else ""


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "t": lambda node: (node.text or "").translate(_SYMBOLS),
    "oMath": lambda node: formula(node, lambda part: part.text or ""),
    "sym": _symbol,
    "checkBox": _check_box,
    "ddList": _drop_down,
}


def _name(node: Any) -> str:
    """Returns the name of an element without its namespace."""
    return str(node.tag).rpartition("}")[2]


def _attribute(node: Any, name: str) -> str:
    return next((value for key, value in node.items() if key.rpartition("}")[2] == name), "")
