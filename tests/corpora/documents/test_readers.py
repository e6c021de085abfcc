"""Documents as strangers have them, made here by the libraries that write them."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragc.corpora.documents.base import Document, UnreadableDocument
from ragc.corpora.documents.reading import DocumentReader
from ragc.errors import UsageError
from tests.corpora.documents.draw import write_pdf
from tests.examples import thorough
from tests.paths import ROOT

docx = pytest.importorskip("docx", reason="the extra documents is not installed")
pptx = pytest.importorskip("pptx", reason="the extra documents is not installed")
pytest.importorskip("pypdfium2", reason="the extra documents is not installed")
xlsxwriter = pytest.importorskip("xlsxwriter", reason="comes with python-pptx")

from ragc.corpora.documents.base import kind_of  # noqa: E402 - after the libraries

ENCRYPTED = ROOT / "tests/corpora/documents/encrypted.pdf"


@pytest.fixture(scope="module")
def reader() -> Iterator[DocumentReader]:
    with DocumentReader(seconds=60) as reader:
        yield reader


Read = Callable[[Path], Document]


@pytest.fixture
def read(reader: DocumentReader) -> Read:
    return lambda path: reader.read(path, kind_of(path))


WORDS = ("amber", "birch", "cedar", "dune", "elm", "fjord", "grove", "heath")


def manual(path: Path, *, pages: int = 4) -> Path:
    """Writes a manual: a chapter a page, with a head and a foot."""
    return write_pdf(
        path,
        [
            [
                (9.0, 810.0, "The Manual of Everything"),
                (18.0, 750.0, f"{n} Chapter {WORDS[n]} begins"),
                *((10.0, 700.0 - 13 * m, f"The {w} of page {n} says {w * n}.") for m, w in enumerate(WORDS)),
                (9.0, 30.0, f"Page {n} of {pages}"),
            ]
            for n in range(1, pages + 1)
        ],
    )


def test_pdf_pages_have_headings_and_no_heads_or_page_numbers(tmp_path: Path, read: Read) -> None:
    document = read(manual(tmp_path / "manual.pdf"))
    assert [page.label for page in document.pages] == ["page 1", "page 2", "page 3", "page 4"]
    first, second = document.pages[:2]
    assert first.text.startswith("# 1 Chapter birch begins\n\nThe amber of page 1 says amber. The birch")
    assert "Manual of Everything" not in first.text
    assert "Page 1" not in first.text
    assert second.section == ("1 Chapter birch begins",)
    assert document.title == ""  # nobody gave one


def test_lines_that_look_like_markdown_are_escaped(tmp_path: Path, read: Read) -> None:
    lines = [(10.0, 700.0, "# include is no heading"), (10.0, 650.0, "| nor is this a table |")]
    (page,) = read(write_pdf(tmp_path / "c.pdf", [lines])).pages
    assert page.text == "\\# include is no heading\n\n\\| nor is this a table |"


def test_word_documents_keep_headings_lists_and_tables_in_order(tmp_path: Path, read: Read) -> None:
    document = docx.Document()
    document.add_heading("Handbook", 0)
    document.add_heading("Leave", 1)
    document.add_paragraph("Thirty days a year.")
    document.add_paragraph("apply early", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["Grade", "Days", "A", "30 | 31"], strict=True):
        cell.text = text
    document.add_heading("Travel", 2)
    document.add_paragraph("# is no heading")
    document.save(str(tmp_path / "handbook.docx"))
    read_back = read(tmp_path / "handbook.docx")
    assert read_back.title == "Handbook"
    assert read_back.pages[0].text.split("\n\n") == [
        "# Handbook",
        "# Leave",
        "Thirty days a year.",
        "- apply early",
        "| Grade | Days |\n| --- | --- |\n| A | 30 \\| 31 |",
        "## Travel",
        "\\# is no heading",
    ]


def test_word_documents_keep_text_in_controls_insertions_fields_and_nested_tables(
    tmp_path: Path, read: Read
) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Leave is ")
    names = f'xmlns:w="{docx.oxml.ns.nsmap["w"]}"'
    run = "<w:r><w:t xml:space='preserve'>{}</w:t></w:r>".format
    for inner in (
        f"<w:ins {names} w:id='1' w:author='A'>{run('thirty ')}</w:ins>",
        f"<w:del {names} w:id='2' w:author='A'><w:r><w:delText>twenty </w:delText></w:r></w:del>",
        f"<w:sdt {names}><w:sdtContent>{run('days ')}</w:sdtContent></w:sdt>",
        f"<w:fldSimple {names} w:instr='REF year'>{run('a year')}</w:fldSimple>",
    ):
        paragraph._p.append(docx.oxml.parse_xml(inner))
    body = document.element.body
    contents = "<w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj>"
    for about, text in ((contents, "Leave 1"), ("<w:text/>", "Signed by the board.")):
        body.insert(
            len(body) - 1,
            docx.oxml.parse_xml(
                f"<w:sdt {names}><w:sdtPr>{about}</w:sdtPr>"
                f"<w:sdtContent><w:p>{run(text)}</w:p></w:sdtContent></w:sdt>"
            ),
        )
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text = "Grade"
    nested = table.cell(0, 1).add_table(1, 2)
    nested.cell(0, 0).text, nested.cell(0, 1).text = "A", "30"
    document.save(str(tmp_path / "form.docx"))
    (page,) = read(tmp_path / "form.docx").pages
    assert page.text.split("\n\n") == [
        "Leave is thirty days a year",
        "Signed by the board.",
        "| Grade | A 30 |\n| --- | --- |",
    ]


def test_slides_are_read_from_top_to_bottom_with_notes(tmp_path: Path, read: Read) -> None:
    presentation = pptx.Presentation()
    for number in (1, 2):
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = f"Plan {number}"
        for top, text in ((4, "below\v# it"), (2, "above")):
            box = slide.shapes.add_textbox(0, pptx.util.Inches(top), pptx.util.Inches(2), pptx.util.Inches(1))
            box.text_frame.text = text
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    slide.element.set("show", "1")
    hidden = presentation.slides.add_slide(presentation.slide_layouts[5])
    hidden.shapes.title.text = "Secret"
    hidden.element.set("show", "0")
    presentation.save(str(tmp_path / "plan.pptx"))
    document = read(tmp_path / "plan.pptx")
    assert [page.label for page in document.pages] == ["slide 1", "slide 2"]
    assert document.pages[1].text == "## Plan 2\n\nabove\n\nbelow\n\\# it\n\nNotes: Say it slowly."
    assert document.notes == ("left out hidden slides: 3",)


def test_sheets_are_tables_and_hidden_ones_are_told(tmp_path: Path, read: Read) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "prices.xlsx"), {"default_date_format": "yyyy-mm-dd"}) as book:
        sheet = book.add_worksheet("Prices")
        sheet.write_row(0, 0, ["name", "price"])
        for row in range(1, 91):
            sheet.write_row(row, 0, [f"item {row}", row * 2])
        sheet.write_datetime(
            91,
            0,
            dt.datetime(2026, 3, 4),  # noqa: DTZ001 - as sheets have them
        )
        book.add_worksheet("Margins").hide()
    document = read(tmp_path / "prices.xlsx")
    assert [page.label for page in document.pages] == [
        "sheet Prices, rows 2 to 41",
        "sheet Prices, rows 42 to 81",
        "sheet Prices, rows 82 to 92",
    ]
    assert document.pages[1].text.startswith("| name | price |\n| --- | --- |\n| item 41 | 82 |\n")
    assert "2026-03-04" in document.pages[2].text
    assert document.notes == ("left out hidden sheets: Margins",)


def test_rows_of_a_sheet_have_the_numbers_that_the_sheet_shows(tmp_path: Path, read: Read) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "low.xlsx")) as book:
        sheet = book.add_worksheet("Low")
        sheet.write_row(4, 2, ["name", "price"])
        for row in range(5, 50):
            sheet.write_row(row, 2, [f"item {row}", row])
    labels = [page.label for page in read(tmp_path / "low.xlsx").pages]
    assert labels == ["sheet Low, rows 6 to 45", "sheet Low, rows 46 to 50"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_tables_of_text_in_usual_encodings(tmp_path: Path, read: Read, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes("Name;Stadt\nJörg;Köln\nZoë;Zürich\n".encode(encoding))
    (page,) = read(tmp_path / "t.csv").pages
    assert page.text == "| Name | Stadt |\n| --- | --- |\n| Jörg | Köln |\n| Zoë | Zürich |"


def test_web_pages_lose_navigation_scripts_and_footers(tmp_path: Path, read: Read) -> None:
    (tmp_path / "page.html").write_text(
        "<html><head><title>Opening hours</title><script>alert(1)</script></head><body>"
        "<nav>Home | About</nav>"
        "<main><h1>Hours</h1><p>Daily from <b>nine</b>.</p><h2>Holidays<a href='#h'>¶</a></h2>"
        "<ul><li>closed</li></ul>"
        "<table><tr><th>Day</th></tr><tr><td>Monday</td></tr></table></main>"
        "<footer>Imprint</footer></body></html>",
        "utf-8",
    )
    document = read(tmp_path / "page.html")
    (page,) = document.pages
    assert document.title == "Opening hours"
    assert page.text.startswith("# Hours\n\nDaily from **nine**.\n\n## Holidays\n\n- closed")
    assert "| Monday |" in page.text
    assert not {"Home", "alert", "Imprint"} & set(page.text.replace("(", " ").split())


def test_the_main_part_of_a_web_page_may_hold_articles(tmp_path: Path, read: Read) -> None:
    inside = "<article><h1>Hours</h1></article><article><p>Daily.</p></article>"
    (tmp_path / "page.html").write_text(
        f"<html><body><header>Our site</header><main>{inside}</main></body></html>", "utf-8"
    )
    assert read(tmp_path / "page.html").pages[0].text == "# Hours\n\nDaily."


def test_a_form_around_a_web_page_is_read(tmp_path: Path, read: Read) -> None:
    (tmp_path / "page.html").write_text(
        "<html><body><form id='aspnetForm'><h1>Hours</h1><p>Daily from nine.</p>"
        "<select><option>English</option></select><form></form></form></body></html>"
    )
    (tmp_path / "search.html").write_text(
        "<html><body><p>Daily from nine to five.</p><form>Search <button>Go</button></form></body></html>"
    )
    assert read(tmp_path / "page.html").pages[0].text == "# Hours\n\nDaily from nine."
    assert read(tmp_path / "search.html").pages[0].text == "Daily from nine to five."


def test_letters_of_a_web_page_stay_and_open_tags_lose_nothing(tmp_path: Path, read: Read) -> None:
    table = "<table><tr><th>key</th></tr><tr><td>1|2</td></tr></table>"
    open_tags = "".join(f"<p><font>line {n} " for n in range(900))
    (tmp_path / "page.html").write_text(
        f"<html><body><p>Set max_tokens to 2 * 3.</p><p># no heading</p>{table}{open_tags}</body></html>"
    )
    blocks = read(tmp_path / "page.html").pages[0].text.split("\n\n")
    assert blocks[:2] == ["Set max_tokens to 2 * 3.", "\\# no heading"]
    assert "| 1\\|2 |" in blocks[2]
    assert blocks[-1] == "line 899"
    (tmp_path / "deep.html").write_text("<div>" * 3000 + "lost")
    assert reason(read, tmp_path / "deep.html") == "has too many elements within each other"


def test_titles_are_no_comments_in_code_and_text_keeps_the_encoding_of_its_mark(
    tmp_path: Path, read: Read
) -> None:
    (tmp_path / "a.md").write_text("```bash\n# install it\n```\n\n# Setup\n", "utf-8")
    (tmp_path / "b.txt").write_bytes("Köln".encode("utf-16-le").join([b"\xff\xfe", b"\0"]))
    (tmp_path / "c.txt").write_bytes("\ufeffKöln ".encode() + b"\xff")
    assert read(tmp_path / "a.md").title == "Setup"
    assert [read(tmp_path / name).pages[0].text for name in ("b.txt", "c.txt")] == [
        "Köln\ufffd",
        "Köln \ufffd",
    ]


def test_markdown_stands_and_text_is_escaped(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.md").write_text("intro\n\n# Setup\n\n- one\n", "utf-8")
    (tmp_path / "b.txt").write_text("# a comment\nplain\n", "utf-8")
    assert (read(tmp_path / "a.md").title, read(tmp_path / "a.md").pages[0].text) == (
        "Setup",
        "intro\n\n# Setup\n\n- one\n",
    )
    assert read(tmp_path / "b.txt").pages[0].text == "\\# a comment\nplain"


def reason(read: Read, path: Path) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        read(path)
    return str(caught.value)


def test_each_bad_file_has_its_reason(tmp_path: Path, read: Read) -> None:
    whole = manual(tmp_path / "manual.pdf").read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[: len(whole) // 3])
    shutil.copy(ENCRYPTED, tmp_path / "locked.pdf")
    write_pdf(tmp_path / "scan.pdf", [[], []])
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "blank.md").write_text(" \n\n", "utf-8")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "old.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (tmp_path / "cut.pptx").write_bytes(b"PK\x03\x04 and no more")
    with zipfile.ZipFile(tmp_path / "other.docx", "w") as package:
        package.writestr("hello.txt", "no document")
    (tmp_path / "cut.xlsx").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "locked.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (tmp_path / "no.html").write_bytes(b"<p>\x00\x01</p>")
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1_000_000_000)
    reasons = {
        path.name: reason(read, path) for path in sorted(tmp_path.iterdir()) if path.name != "manual.pdf"
    }
    assert reasons["cut.pdf"].startswith("is truncated or damaged (")
    assert reasons["locked.pdf"] == "is encrypted"
    assert reasons["scan.pdf"] == "has no text on its 2 pages; they may be scans"
    assert reasons["empty.txt"] == reasons["blank.md"] == "is empty"
    assert reasons["binary.txt"] == "is no text"
    assert reasons["old.docx"] == "is encrypted, or of a format from before 2007"
    assert reasons["cut.pptx"] == "cannot be read (PackageNotFoundError: Package not found at 'cut.pptx')"
    assert reasons["cut.xlsx"].startswith("cannot be read (ZipError: ")
    assert reasons["locked.xlsx"] == "is encrypted, or of a format from before 2007"
    assert reasons["no.html"] == "is no text"
    assert reasons["other.docx"].startswith("cannot be read (KeyError: ")
    assert reasons["huge.txt"] == "has 1,000 MB, and 100 MB are read at most"


OWN = """
import os, time

def read(path):
    text = path.read_text()
    if text == "hang":
        time.sleep(60)
    if text == "die":
        os._exit(9)
    if text == "eat":
        return "x" * 4_000_000_000
    if text == "print":
        print("{}")
    return text.upper()
"""


@thorough
def test_a_reader_of_ones_own_costs_no_more_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_readers.py").write_text(OWN, "utf-8")
    monkeypatch.chdir(tmp_path)
    results = {}
    with DocumentReader(seconds=5) as reader:
        for text in ("one", "hang", "die", "eat", "print", "two"):
            (tmp_path / f"{text}.xyz").write_text(text, "utf-8")
            try:
                results[text] = reader.read(tmp_path / f"{text}.xyz", "my_readers:read").pages[0].text
            except UnreadableDocument as error:
                results[text] = str(error)
        with pytest.raises(UsageError, match="needs the module 'my_raeders'"):
            reader.read(tmp_path / "one.xyz", "my_raeders:read")
    assert results == {
        "one": "ONE",
        "hang": "takes more than 5 seconds",
        "die": "ended the process that read it; it may be damaged",
        "eat": results["eat"] if sys.platform == "darwin" else "needs more than 3 GB of memory",
        "print": "PRINT",
        "two": "TWO",
    }


def test_a_file_beside_the_documents_replaces_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pypdfium2.py").write_text("raise SystemExit(7)", "utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit(7)", "utf-8")
    monkeypatch.chdir(tmp_path)
    with DocumentReader() as reader:
        assert len(reader.read(manual(tmp_path / "m.pdf"), kind_of(Path("m.pdf"))).pages) == 4
