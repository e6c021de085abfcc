"""Text of Office files that used to be lost, glued to other text, or taken for what it is not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest

from ragc.corpora.documents.base import Document, UnreadableDocument

docx = pytest.importorskip("docx", reason="the extra documents is not installed")
pptx = pytest.importorskip("pptx", reason="the extra documents is not installed")
xlsxwriter = pytest.importorskip("xlsxwriter", reason="comes with python-pptx")

from ragc.corpora.documents import office  # noqa: E402 - after the libraries


def write_word(path: Path, body: str, **parts: str) -> Path:
    """Writes a Word document with this body, and parts such as `footnotes`."""
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    word_names, math = docx.oxml.ns.nsmap["w"], "http://schemas.openxmlformats.org/officeDocument/2006/math"
    names = f'xmlns:w="{word_names}" xmlns:m="{math}"'
    document: Any = docx.Document()
    for node in docx.oxml.parse_xml(f"<w:body {names}>{body}</w:body>"):
        document.element.body.insert(len(document.element.body) - 1, node)
    for name, content in parts.items():
        blob = f"<w:{name} {names}>{content}</w:{name}>".encode()
        part = Part(PackURI(f"/word/{name}.xml"), "application/xml", blob, document.part.package)
        document.part.relate_to(part, getattr(RELATIONSHIP_TYPE, name.upper()))
    document.save(str(path))
    return path


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def field(content: str) -> str:
    return f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{content}</w:ffData></w:fldChar></w:r>"


def control(about: str, words: str) -> str:
    return f"<w:sdt><w:sdtPr>{about}</w:sdtPr><w:sdtContent><w:p>{run(words)}</w:p></w:sdtContent></w:sdt>"


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(cells)}</w:tr>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{run(text)}</w:p></w:tc>"


def table(*rows: str) -> str:
    return f"<w:tbl>{''.join(rows)}</w:tbl>"


CONTENTS = "<w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj>"
LONG = "A remark on all of these columns that says much more than a name of a column would ever say."
MATH = (
    "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>",
    "<m:nary><m:sub><m:r><m:t>0</m:t></m:r></m:sub><m:sup/><m:e><m:r><m:t>x</m:t></m:r></m:e></m:nary>",
    "<m:d><m:e><m:r><m:t>y</m:t></m:r></m:e></m:d>",
)
FEES = "| Plan | Fee |  |\n| --- | --- | --- |\n| Gold | 1 | 10 |\n| Gold | 2 | 12 |"
SUM = "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr>"
NESTED = table(row(cell("A"), cell("30")))
BODIES = {
    "headings, lists and lines like headings": (
        "</w:p>".join((
            "<w:pPr><w:pStyle w:val='Title'/></w:pPr>" + run("Handbook"),
            "<w:p><w:pPr><w:pStyle w:val='Heading2'/></w:pPr>" + run("Leave"),
            "<w:p><w:pPr><w:pStyle w:val='ListBullet'/></w:pPr>" + run("apply early"),
            "<w:p><w:pPr><w:numPr><w:numId w:val='3'/></w:numPr></w:pPr>" + run("in writing"),
            "<w:p><w:pPr><w:pStyle w:val='ListParagraph'/></w:pPr>" + run("Thirty days"),
            "<w:p><w:pPr><w:pStyle w:val='ListBullet'/><w:numPr><w:numId w:val='0'/></w:numPr></w:pPr>"
            + run("# no heading"),
        )),
        "# Handbook\n\n## Leave\n\n- apply early\n\n- in writing\n\nThirty days\n\n\\# no heading",
    ),
    "superscripts and hidden text": (
        run("within 14") + run("1", "<w:vertAlign w:val='superscript'/>") + run(" h", "<w:vanish/>"),
        "within 14^1",
    ),
    "struck text": (
        run("Salmon ", "<w:strike/>") + run("Trout ", "<w:dstrike w:val='true'/>")
        + run("Sold out", "<w:strike w:val='0'/>"),
        "Sold out",
    ),
    "footnotes": (
        run("see note") + "<w:r><w:footnoteReference w:id='2'/></w:r>", "see note\n\nNote: except software",
    ),
    "fractions": (f"<m:oMath>{MATH[0]}</m:oMath>", "(a+b)/2"),
    "integrals": (f"<m:oMath>{MATH[1]}</m:oMath>", "∫_0 x"),
    "sums": (
        f"<m:oMath>{MATH[1].replace('<m:nary>', SUM)}</m:oMath>",
        "∑_0 x",
    ),
    "parentheses": (f"<m:oMath>{MATH[2]}</m:oMath>", "(y)"),
    "ruby": (
        f"<w:r><w:ruby><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>",
        "東京(とうきょう)",
    ),
    "text boxes": (
        f"<w:r><w:pict><w:txbxContent><w:p>{run('call')}</w:p></w:txbxContent></w:pict></w:r>", "call",
    ),
    "insertions, controls and fields": (
        "".join((
            f"{run('Leave is ')}<w:ins w:id='1' w:author='A'>{run('thirty ')}</w:ins>",
            f"<w:del w:id='2'>{run('twenty ')}</w:del>",
            f"<w:sdt><w:sdtContent>{run('days ')}</w:sdtContent></w:sdt>",
            f"<w:fldSimple w:instr='REF year'>{run('a year')}</w:fldSimple>",
        )),
        "Leave is thirty days a year",
    ),
    "signs of the font Symbol": (
        run("0 \uf0a3 \uf062") + "<w:r><w:sym w:font='Symbol' w:char='F0B3'/></w:r>"
        + "<w:r><w:sym w:font='Wingdings' w:char='F0A8'/></w:r>",
        "0 ≤ β≥☐",
    ),
    "boxes of a form": (
        field("<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>") + run("Urgent ")
        + field("<w:checkBox><w:default w:val='0'/></w:checkBox>") + run("Routine"),
        "☒ Urgent ☐ Routine",
    ),
    "chosen entries of a form": (
        field("<w:ddList><w:result w:val='1'/><w:listEntry w:val='A'/><w:listEntry w:val='B'/></w:ddList>"),
        "B",
    ),
    "lines of contents": (f"</w:p>{control(CONTENTS, 'Leave 1')}<w:p>{run('Leave')}", "Leave"),
    "controls": (f"</w:p>{control('<w:text/>', 'Signed')}<w:p>", "Signed"),
    "merged cells": (
        "</w:p>"
        + table(
            row(cell("Plan"), cell("Fee", "<w:gridSpan w:val='2'/>")),
            row(cell("Gold", "<w:vMerge w:val='restart'/>"), cell("1"), cell("10")),
            row(cell("", "<w:vMerge/>"), cell("2"), cell("12")),
            row(cell("All", "<w:gridSpan w:val='3'/>")),
            row(cell("x"), cell("free", "<w:gridSpan w:val='2'/><w:vMerge w:val='restart'/>")),
            row(cell("y"), cell("", "<w:gridSpan w:val='2'/><w:vMerge/>")),
            row(cell(LONG, "<w:vMerge w:val='restart'/>"), cell("3"), cell("15")),
            row(cell("", "<w:vMerge/>"), cell("4"), cell("16")),
        )
        + "<w:p>",
        f"{FEES}\n| All |  |  |\n| x | free |  |\n| y | free |  |\n| {LONG} | 3 | 15 |\n|  | 4 | 16 |",
    ),
    "tables within a table": (
        f"</w:p>{table(row(cell('Grade'), f'<w:tc>{NESTED}<w:p/></w:tc>'))}<w:p>",
        "Grade\n\n| A | 30 |\n| --- | --- |",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_word_keeps(name: str, tmp_path: Path) -> None:
    body, expected = BODIES[name]
    footnotes = f"<w:footnote w:id='2'><w:p>{run('except software')}</w:p></w:footnote>"
    path = write_word(tmp_path / "a.docx", f"<w:p>{body}</w:p>", footnotes=footnotes)
    assert office.read_word(path).pages[0].text == expected


def test_word_has_a_title_leaves_contents_out_and_notes_comments(tmp_path: Path) -> None:
    document: Any = docx.Document()
    document.styles.add_style("TOC 1", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    document.add_heading("Handbook", 0)
    document.add_paragraph("1 Scope 15", style="TOC 1")
    paragraph = document.add_paragraph("The scope.")
    document.add_comment(paragraph.runs, "Too short?", "Ann", "A")
    document.save(str(tmp_path / "a.docx"))
    read = office.read_word(tmp_path / "a.docx")
    assert (read.title, read.notes) == ("Handbook", ("left out comments: 1",))
    assert read.pages[0].text == "# Handbook\n\nThe scope."


def test_word_is_read_where_a_picture_is_missing(tmp_path: Path) -> None:
    written = write_word(tmp_path / "a.docx", f"<w:p>{run('Words')}</w:p>")
    lost = b'<Relationship Id="rId99" Type="http://x/image" Target="NULL"/></Relationships>'
    with ZipFile(written) as source, ZipFile(tmp_path / "b.docx", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            is_named = name == "word/_rels/document.xml.rels"
            target.writestr(name, content.replace(b"</Relationships>", lost) if is_named else content)
    assert office.read_word(tmp_path / "b.docx").pages[0].text == "Words"


def test_a_strict_word_document_is_refused_with_a_remedy(tmp_path: Path) -> None:
    ordinary, strict = (
        "http://schemas.openxmlformats.org/officeDocument/2006/",
        "http://purl.oclc.org/ooxml/officeDocument/",
    )
    written = write_word(tmp_path / "a.docx", f"<w:p>{run('Words')}</w:p>")
    with ZipFile(written) as source, ZipFile(tmp_path / "b.docx", "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(ordinary.encode(), strict.encode()))
    with pytest.raises(UnreadableDocument, match=r"Strict Open XML.*save it as an ordinary Word document"):
        office.read_word(tmp_path / "b.docx")


def test_slides_keep_their_order_notes_charts_merged_cells_and_diagrams(tmp_path: Path) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    presentation: Any = pptx.Presentation()
    data: Any = cast(Any, CategoryChartData)()
    data.categories = ["East", "West"]
    data.add_series("2024", (19.2, 0.1 + 0.2))
    data.add_series("2025", (22, None))
    slides = [presentation.slides.add_slide(presentation.slide_layouts[5]) for _ in range(5)]
    for top, text in ((4, "below\v# it"), (2, "above")):
        box = slides[3].shapes.add_textbox(0, pptx.util.Inches(top), pptx.util.Inches(2), pptx.util.Inches(1))
        box.text_frame.text = text
    slides[3].shapes.title.text = "Plan"
    slides[3].notes_slide.notes_text_frame.text = "Say it slowly."
    slides[4].element.set("show", "0")
    chart = slides[0].shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 5_000, 4_000, data).chart
    chart.chart_title.text_frame.text = "Revenue"
    cells = slides[1].shapes.add_table(2, 3, 0, 0, 5_000, 4_000).table
    for place, text in {(0, 0): "Plan", (0, 1): "Fee", (1, 0): "Gold", (1, 1): "1", (1, 2): "10"}.items():
        cells.cell(*place).text = text
    cells.cell(0, 1).merge(cells.cell(0, 2))
    frame = slides[2].shapes.add_table(1, 1, 0, 0, 5_000, 4_000).element
    drawing, diagram = "http://schemas.openxmlformats.org/drawingml/2006/", "application/xml"
    blob = f"<d xmlns:a='{drawing}main'><a:p><a:r><a:t>Step one</a:t></a:r></a:p></d>".encode()
    part = Part(PackURI("/ppt/diagrams/data1.xml"), diagram, presentation.part.package, blob)
    place = slides[2].part.relate_to(part, "diagramData")
    frame.graphic.graphicData.uri = f"{drawing}diagram"
    holder = frame.graphic.graphicData
    holder.remove(holder[0])
    holder.append(pptx.oxml.parse_xml(f"<g:relIds xmlns:g='{drawing}diagram' dm='{place}'/>"))
    presentation.save(str(tmp_path / "a.pptx"))
    document = office.read_slides(tmp_path / "a.pptx")
    assert document.notes == ("left out hidden slides: 5",)
    assert [page.label for page in document.pages] == ["slide 1", "slide 2", "slide 3", "slide 4"]
    assert [page.text for page in document.pages] == [
        "Revenue\n\n|  | 2024 | 2025 |\n| --- | --- | --- |\n| East | 19.2 | 22 |\n| West | 0.3 |  |",
        "| Plan | Fee |  |\n| --- | --- | --- |\n| Gold | 1 | 10 |",
        "Step one",
        "## Plan\n\nabove\n\nbelow\n\\# it\n\nNotes: Say it slowly.",
    ]


def test_slides_read_cards_next_to_each_other_card_by_card(tmp_path: Path) -> None:
    presentation: Any = pptx.Presentation()
    shapes = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes

    def write(parent: Any, text: str, left: int, top: int, width: int) -> None:
        lengths = (pptx.util.Pt(length) for length in (left, top, width, 30))
        parent.add_textbox(*lengths).text_frame.text = text

    write(shapes, "1 of 2", 50, 500, 600)
    grouped = shapes.add_group_shape().shapes
    for label, left in (("leave", 450), ("staff", 50), ("cost", 250)):
        for number, name in enumerate(("number", "name", "note")):
            parent = grouped if label == "leave" else shapes
            write(parent, f"{label} {name}", left, 150 - (label == "leave") + 30 * number, 180)
    write(shapes, "Our year", 50, 50, 600)
    write(shapes, "across the title", 500, 70, 150)
    presentation.save(str(tmp_path / "a.pptx"))
    cards = [f"{label} {name}" for label in ("staff", "cost", "leave") for name in ("number", "name", "note")]
    text = office.read_slides(tmp_path / "a.pptx").pages[0].text
    assert text.split("\n\n") == ["Our year", "across the title", *cards, "1 of 2"]


def write_sheets(path: Path, **sheets: list[list[Any]]) -> Path:
    with xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd"}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, values in enumerate(rows):
                sheet.write_row(number, 0, values)
            if name == "Merged":
                sheet.merge_range(1, 0, 2, 0, "North")
                sheet.write_datetime(3, 1, dt.datetime(2026, 3, 4))  # noqa: DTZ001 - as sheets have them
            if name == "Hidden":
                sheet.hide()
    return path


def test_sheets_have_each_table_under_its_header(tmp_path: Path) -> None:
    stacked: list[list[Any]] = [["Prices of 2026"], ["Item", "Price"], ["Tea", 0.1 + 0.2], ["Milk", 2.0], []]
    stacked += [
        ["Staff"],
        ["Name", "Since"],
        ["Ann", 2019],
        [],
        ["Bob", 2021],
        [],
        ["Size", "Cost"],
        ["S", 1],
    ]
    merged = [["Region", "City"], ["North", "Kiel"], ["", "Bremen"]]
    matrix: list[list[Any]] = [["v", "w"], [255, 255], [255, 255], [], [3], [4, 5]]
    sheets = {"Stacked": stacked, "Merged": merged, "Matrix": matrix, "Hidden": matrix}
    document: Document = office.read_sheets(write_sheets(tmp_path / "a.xlsx", **sheets))
    assert document.notes == ("left out hidden sheets: Hidden",)
    assert {page.label: page.text.replace("\n| --- | --- |", "") for page in document.pages} == {
        "sheet Stacked, rows 3 to 4": "Prices of 2026\n\n| Item | Price |\n| Tea | 0.3 |\n| Milk | 2 |",
        "sheet Stacked, rows 8 to 8": "Staff\n\n| Name | Since |\n| Ann | 2019 |",
        "sheet Stacked, rows 10 to 10": "| Name | Since |\n| Bob | 2021 |",
        "sheet Stacked, rows 13 to 13": "| Size | Cost |\n| S | 1 |",
        "sheet Matrix, rows 2 to 3": "| v | w |\n| 255 | 255 |\n| 255 | 255 |",
        "sheet Matrix, rows 5 to 6": "| v | w |\n| 3 |  |\n| 4 | 5 |",
        "sheet Merged": "| Region | City |\n| North | Kiel |\n| North | Bremen |\n|  | 2026-03-04 |",
    }


def test_a_long_table_repeats_its_header_and_counts_its_rows_as_the_sheet_does(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[], ["name", "price"], *([f"item {row}", row * 2] for row in range(1, 91))]
    pages = office.read_sheets(write_sheets(tmp_path / "a.xlsx", Prices=rows)).pages
    assert [page.label for page in pages] == [
        f"sheet Prices, rows {span}" for span in ("3 to 42", "43 to 82", "83 to 92")
    ]
    assert pages[1].text.startswith("| name | price |\n| --- | --- |\n| item 41 | 82 |\n")


def test_a_sheet_that_cannot_be_read_costs_no_other_one(tmp_path: Path) -> None:
    written = write_sheets(tmp_path / "a.xlsx", Good=[["a", 1]], Bad=[["b", 2]])
    with ZipFile(written) as source, ZipFile(tmp_path / "b.xlsx", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            is_bad = name.endswith("sheet2.xml")
            target.writestr(name, content.replace(b'"B1"><v>', b'"B1" t="n"><v> ') if is_bad else content)
    document = office.read_sheets(tmp_path / "b.xlsx")
    assert [page.label for page in document.pages] == ["sheet Good"]
    assert document.notes[0].startswith("sheet Bad cannot be read (")
