"""Text that readers used to lose, to glue to other text, or to take for what it is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest

pytest.importorskip("pypdfium2", reason="the extra documents is not installed")
docx = pytest.importorskip("docx", reason="the extra documents is not installed")

from ragc.corpora.documents import html, office, pdf, text  # noqa: E402 - after the libraries
from ragc.corpora.documents.base import UnreadableDocument, cleaned, real_title  # noqa: E402
from ragc.corpora.documents.reading import read_content  # noqa: E402
from tests.corpora.documents.draw import Line, text_of, write_objects, write_pdf  # noqa: E402


def pages(path: Path, *sheets: list[str], size: float = 10.0) -> list[str]:
    """Returns the text of a PDF with these lines on its pages."""
    write_pdf(path, [[(size, 780.0 - 20 * n, line) for n, line in enumerate(lines)] for lines in sheets])
    return [page.text for page in pdf.read(path).pages]


def test_slides_that_differ_by_rising_numbers_keep_them(tmp_path: Path) -> None:
    decks = [[f"Revenue in {2022 + n}", f"Growth: {n * 7} percent", str(1400 + 10 * n)] for n in range(4)]
    for lines, slide in zip(decks, pages(tmp_path / "a.pdf", *decks), strict=True):
        assert all(line in slide for line in lines)


def test_invoices_keep_number_date_and_total(tmp_path: Path) -> None:
    bodies = [
        [f"Invoice No. {1000 + n}", f"Date of issue: {n} March 2024", f"Customer {'ABCD'[n - 1]}",
         "Item: drum", "Delivered north", "Paid by transfer", "Contact: desk",
         f"Total: {n}50.00 EUR", f"Due: {n} May 2024"]
        for n in range(1, 5)
    ]  # fmt: skip
    for lines, page in zip(bodies, pages(tmp_path / "a.pdf", *bodies), strict=True):
        assert all(line in page for line in lines)


def test_words_and_numbers_that_look_like_page_numbers_stay(tmp_path: Path) -> None:
    assert pages(tmp_path / "a.pdf", ["Branch of law:", "Civil"], ["Answer to question 7:", "1500"]) == [
        "Branch of law: Civil",
        "Answer to question 7: 1500",
    ]


def test_a_page_of_nothing_but_a_running_head_keeps_it(tmp_path: Path) -> None:
    assert pages(tmp_path / "a.pdf", *[["Company handbook"]] * 4) == ["Company handbook"] * 4


def test_running_heads_with_the_page_number_go(tmp_path: Path) -> None:
    sheets = [["Handbook", f"Words of sheet {w}.", f"Page {n} of 4"] for n, w in enumerate("abcd", 1)]
    assert pages(tmp_path / "a.pdf", *sheets) == [f"Words of sheet {w}." for w in "abcd"]


def test_running_heads_that_change_with_the_chapter_go_and_titles_of_slides_stay(tmp_path: Path) -> None:
    def sheets(size: float) -> list[list[Line]]:
        heads = [f"Chapter {n // 3}. {'ABC'[n // 3]} story {n}" for n in range(1, 9)]
        return [
            [
                (size, 800, head),
                *((10.0, 700 - 12 * n, f"Line {n} of sheet {head[-1]} says more.") for n in range(3)),
            ]
            for head in heads
        ]

    book = pdf.read(write_pdf(tmp_path / "book.pdf", sheets(9.0)))
    assert [page.text.startswith("Line 0") for page in book.pages] == [True] * 8
    slides = pdf.read(write_pdf(tmp_path / "slides.pdf", sheets(20.0)))
    assert all("story" in page.text for page in slides.pages)


def test_the_number_of_an_invoice_beside_the_name_of_its_customer_stays(tmp_path: Path) -> None:
    sheets: list[list[Line]] = [
        [
            (9.0, 800, "Customer Acme"),
            (9.0, 800, f"Invoice No. {1000 + n}", 300.0),
            *((10.0, 700 - 12 * m, f"Item {n * 3 + m} of the order") for m in range(3)),
        ]
        for n in range(4)
    ]
    invoices = pdf.read(write_pdf(tmp_path / "a.pdf", sheets)).pages
    assert all(f"Invoice No. {1000 + n}" in page.text for n, page in enumerate(invoices))


def test_tables_of_contents_and_indexes_are_no_pages(tmp_path: Path) -> None:
    contents = [f"Chapter of {w} . . . . . . . {n}" for n, w in enumerate("abcdef", 1)]
    index = [f"{w}, {n}, {n + 1}" for n, w in enumerate(("amber", "birch", "cedar", "dune", "elm", "fir"), 1)]
    chapters = [[f"Words on {w}."] for w in "abcdef"]
    write_pdf(
        tmp_path / "a.pdf",
        [
            [(10.0, 780.0 - 20 * n, line) for n, line in enumerate(page)]
            for page in (contents, *chapters, index)
        ],
    )
    document = pdf.read(tmp_path / "a.pdf")
    assert [page.label for page in document.pages] == [f"page {n}" for n in range(2, 8)]
    assert document.notes == ("left out page 1, 8, a table of contents or an index",)


def test_superscripts_of_pdf_stay_apart(tmp_path: Path) -> None:
    line: list[Line] = [
        (10.0, 700.0, "within 14"),
        (7.0, 704.0, "1", 101.0),
        (10.0, 700.0, " days of H", 105.0),
    ]
    line += [(7.0, 698.0, "2", 148.0), (10.0, 700.0, "O, area 10", 152.0), (7.0, 704.0, "6", 199.0)]
    (page,) = pdf.read(write_pdf(tmp_path / "a.pdf", [line])).pages
    assert page.text == "within 14^1 days of H₂O, area 10^6"


def test_lines_in_columns_are_a_table_or_columns_of_text(tmp_path: Path) -> None:
    rows = [("Tea", "3.50"), ("Coffee|filter", "2.80"), ("Water", "1.00")]
    left = [f"The committee reviewed line {n} of its report and" for n in range(4)]
    right = [f"Another group looked at line {n} of the plan" for n in range(4)]
    lines: list[Line] = [(10.0, 760.0, "Prices of the year.")]
    for n, (name, price) in enumerate(rows):
        lines += [(10.0, 740.0 - 14 * n, name, 60.0), (10.0, 740.0 - 14 * n, price, 260.0)]
    lines += [(10.0, 640.0, "Of the meeting.")]
    for n in range(4):
        lines += [(10.0, 600.0 - 12 * n, left[n], 60.0), (10.0, 600.0 - 12 * n, right[n], 320.0)]
    (page,) = pdf.read(write_pdf(tmp_path / "a.pdf", [lines])).pages
    table = "| Tea | 3.50 |\n| --- | --- |\n| Coffee\\|filter | 2.80 |\n| Water | 1.00 |"
    blocks = ["Prices of the year.", table, "Of the meeting.", " ".join(left), " ".join(right)]
    assert page.text.split("\n\n") == blocks


def test_pages_without_text_are_told(tmp_path: Path) -> None:
    document = pdf.read(write_pdf(tmp_path / "a.pdf", [[(10.0, 700.0, "Words.")], [], []]))
    assert document.notes == ("no text on page 2, 3; it may be a scan",)


def test_japanese_words_at_the_end_of_a_line_are_joined_without_a_space(tmp_path: Path) -> None:
    lines = ["民主", "主義の Debian", "憲章"]
    shown = (line.encode("utf-16-be").hex() for line in lines)
    stream = "".join(f"BT /F 10 Tf 60 {700 - 12 * n} Td <{line}> Tj ET " for n, line in enumerate(shown))
    system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 5 >>"
    kind = f"/Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light {system} /FontDescriptor 4 0 R"
    font = f"/Subtype /Type0 /BaseFont /R /Encoding /UniJIS-UCS2-H /DescendantFonts [<< {kind} >>]"
    about = (
        "<< /Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 /FontBBox [0 -200 1000 900] /StemV 80 >>"
    )
    assert text_of(tmp_path / "a.pdf", [stream], font, about) == "民主主義の Debian 憲章"


@pytest.mark.parametrize(("letters", "is_told"), [("/uni0627 /K", True), ("/uni0041 /K", False)])
def test_pages_in_fonts_without_unicode_are_told(letters: str, is_told: bool, tmp_path: Path) -> None:
    encoding = f"/Encoding << /Type /Encoding /Differences [65 {letters}] >>"
    stream = "BT /F 10 Tf 60 700 Td (ABA BAB xAy) Tj ET"
    text = text_of(tmp_path / "a.pdf", [stream], f"/Amiri {encoding}")
    assert text.endswith("text on page 1 may be unreadable; fonts lack Unicode") == is_told


def test_values_of_form_fields_follow_their_labels(tmp_path: Path) -> None:
    fields = [("name", "Ada Lovelace", 700), ("plan", "Gold plan", 670)]
    kids = " ".join(f"{n} 0 R" for n in (6, 7))
    stream = "BT /F 10 Tf 60 705 Td (Name:) Tj ET BT /F 10 Tf 60 675 Td (Plan:) Tj ET"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{kids}] >> >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 595 842] >>",
        f"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Annots [{kids}] /Resources 8 0 R >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *(
            f"<< /Subtype /Widget /FT /Tx /T ({name}) /V ({value}) /Rect [100 {y} 300 {y + 18}] >>"
            for name, value, y in fields
        ),
        "<< /Font << /F 5 0 R >> >>",
    ]
    (page,) = pdf.read(write_objects(tmp_path / "a.pdf", objects)).pages
    assert page.text == "Name: Ada Lovelace\n\nPlan: Gold plan"


@pytest.mark.parametrize(
    "title",
    ["untitled", "Untitled Document", "Microsoft Word - terms.docx", "(anonymous)", "PowerPoint Presentation",
     "tmp8x2k1.html", "report-final.indd", "Document1", " "],
)  # fmt: skip
def test_titles_that_programs_write_are_none(title: str) -> None:
    assert real_title(title) == ""
    assert real_title("Terms of use") == "Terms of use"


@pytest.mark.parametrize(
    ("declared", "encoding", "words"),
    [
        ("gb2312", "gb18030", "朱镕基出席会议"),
        ("iso-8859-1", "cp1252", "The “returns” period – it’s €20"),
        ("Shift_JIS", "cp932", "髙島屋の返品①"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("utf-16", "utf-8", "Größe"),
        ("no-such-encoding", "utf-8", "Größe"),
    ],
)
def test_pages_are_decoded_as_browsers_do(declared: str, encoding: str, words: str, tmp_path: Path) -> None:
    page = f'<html><head><meta charset="{declared}"></head><body><p>{words}</p></body></html>'
    (tmp_path / "a.html").write_bytes(page.encode(encoding))
    assert html.read(tmp_path / "a.html").pages[0].text == words


def test_text_of_unknown_encoding_is_read_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Срок возврата товара составляет четырнадцать дней.".encode("cp1251"))
    (tmp_path / "b.txt").write_bytes(
        "Die Rückgabefrist beträgt vierzehn Tage, schöne Grüße.\n".encode() + b"\xff"
    )
    cyrillic, german = text.read(tmp_path / "a.txt"), text.read(tmp_path / "b.txt")
    assert cyrillic.pages[0].text == "Срок возврата товара составляет четырнадцать дней."
    assert cyrillic.notes == ("its encoding is not said; it was read as cp1251",)
    assert german.pages[0].text.startswith("Die Rückgabefrist beträgt")
    assert german.notes == ("1 bytes are no valid utf-8 and were replaced",)


BODY = "".join(f"<p>Paragraph {n} explains how valve {n} is closed.</p>" for n in range(20))


def page_text(body: str) -> str:
    return html.markdown(f"<html><body>{body}</body></html>")[1]


def test_a_page_within_a_button_or_header_that_is_not_closed_is_read() -> None:
    story = "<h2>Dogs</h2>" + "<p>A story about dogs that live for long.</p>" * 5
    for opened in ('<header role="banner"><button>Menu', "<nav><a href=/>Home</a>", "<footer>"):
        content = page_text(f"{opened}<div>{story}</div>")
        assert content.count("A story about dogs that live for long.") == 5


def test_the_title_of_a_page_stays_among_links_to_its_languages() -> None:
    links = "".join(f"<li><a href=/{n}>Language {n}</a></li>" for n in range(20))
    content = page_text(f"<header><h1>Office</h1><ul>{links}</ul></header><p>A suite of programs.</p>")
    assert content == "# Office\n\nA suite of programs."


def test_navigation_scripts_and_footers_go() -> None:
    title, content = html.markdown(
        "<html><head><title>Opening hours</title><script>alert(1)</script></head><nav>Home | About</nav>"
        "<header>Our site</header><main><article><h1>Hours</h1></article><article><p>From <b>nine</b>.</p>"
        "<h2>Holidays<a href='#h'>¶</a></h2><ul><li>closed</li></ul></article></main><footer>Imprint</footer>"
    )
    assert title == "Opening hours"
    assert content == "# Hours\n\nFrom **nine**.\n\n## Holidays\n\n- closed"


def test_a_form_around_a_page_is_read_and_one_in_it_is_not() -> None:
    around = "<form><h1>Hours</h1><p>Daily.</p><select><option>English</option></select><form></form></form>"
    assert page_text(around) == "# Hours\n\nDaily."
    assert page_text("<p>Daily from nine to five.</p><form>Search <button>Go</button></form>") == (
        "Daily from nine to five."
    )


def test_letters_of_a_page_stay_and_open_tags_lose_nothing() -> None:
    table = "<table><tr><th>key</th></tr><tr><td>1|2</td></tr></table>"
    open_tags = "".join(f"<p><font>line {n} " for n in range(200))
    blocks = page_text(f"<p>Set max_tokens to 2 * 3.</p><p># no heading</p>{table}{open_tags}").split("\n\n")
    assert blocks[:2] == ["Set max_tokens to 2 * 3.", "\\# no heading"]
    assert "| 1\\|2 |" in blocks[2]
    assert blocks[-1] == "line 199"


def test_a_small_article_or_an_empty_main_hides_nothing() -> None:
    assert page_text(f"<main id=app></main><div>{BODY}</div>").count("Paragraph") == 20
    card = "<article><h3>Related post</h3><p>Read this too.</p></article>"
    assert page_text(f"<div>{BODY}</div>{card}").count("Paragraph") == 20


def test_cells_that_span_rows_and_columns_fill_them() -> None:
    table = (
        "<table><tr><th>Plan</th><th colspan=2>Fee</th></tr>"
        "<tr><td rowspan=2>Gold</td><td>1</td><td>10</td></tr><tr><td>2</td><td>12</td></tr></table>"
    )
    assert page_text(table).splitlines() == [
        "| Plan | Fee | Fee |", "| --- | --- | --- |", "| Gold | 1 | 10 |", "| Gold | 2 | 12 |",
    ]  # fmt: skip


def test_menus_and_contents_of_pages_go_and_lists_of_links_in_the_text_stay() -> None:
    links = "".join(f"<a href=/{w}>{w} page</a> " for w in ("Home", "About", "Contact"))
    assert page_text(
        f"<div class=top>{links}</div>{BODY}<div><h4>Contents</h4><ul><li>{links}</ul></div>"
    ) == (page_text(BODY))
    dishes = "".join(f"<li>Soup of the day number {n}, 4.50</li>" for n in range(9))
    assert "Soup" in page_text(f"<div id=menu><ul>{dishes}</ul><a href=a.pdf>Allergens</a></div>")
    assert "About page" in page_text(f"{BODY}<p>The fields are:</p><ul><li>{links}</ul>")
    with pytest.raises(UnreadableDocument, match="nothing but links"):
        page_text(f"<h1>Index</h1><ul><li>{links}</ul>")


def test_superscripts_ruby_and_formulas_of_pages_are_text() -> None:
    assert page_text(
        "<p>14<sup>1</sup> days, the 5<sup>th</sup>, H<sub>2</sub>O<sup><a href=#n>[1]</a></sup></p>"
    ) == ("14^1 days, the 5th, H₂O[1]")
    assert page_text("<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby></p>") == "東京(とうきょう)"
    square = "<msup><mi>c</mi><mn>2</mn></msup>"
    half = "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>"
    assert page_text(f"<p>E = <math><mi>m</mi>{square}</math></p>") == "E = mc^2"
    assert page_text(f"<p><math>{half}</math></p>") == "(a+b)/2"
    assert page_text("<p><math alttext='x+1'><mi>q</mi></math></p>") == "x+1"


def test_pictures_in_base64_and_endless_blanks_are_no_text() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 500
    assert (
        cleaned(f"See ![the plant]({picture}) here.\n\n[img]: <{picture}>")
        == "See the plant here.\n\n[img]: "
    )
    assert cleaned(f"a{' ' * 1_000_000}b") == "a b"
    assert cleaned("Kranken\xadversicherung be\u200btragen") == "Krankenversicherung betragen"


def word(path: Path, body: str, **parts: str) -> str:
    """Returns the text of a Word document with this body, and parts such as `footnotes`."""
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
    return office.read_word(path).pages[0].text


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def test_word_keeps_superscripts_footnotes_formulas_ruby_and_text_boxes(tmp_path: Path) -> None:
    raised = "<w:vertAlign w:val='superscript'/>"
    paragraphs = (
        run("within 14") + run("1", raised) + run(" days") + run(" hidden", "<w:vanish/>"),
        run("see note") + "<w:r><w:footnoteReference w:id='2'/></w:r>",
        run("fee ")
        + "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num>"
        + "<m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>",
        f"<w:r><w:ruby><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>",
        f"<w:r><w:pict><w:txbxContent><w:p>{run('call 0800')}</w:p></w:txbxContent></w:pict></w:r>",
    )
    body = "".join(f"<w:p>{paragraph}</w:p>" for paragraph in paragraphs)
    footnotes = f"<w:footnote w:id='2'><w:p>{run('except software')}</w:p></w:footnote>"
    assert word(tmp_path / "a.docx", body, footnotes=footnotes).split("\n\n") == [
        "within 14^1 days", "see note", "Note: except software", "fee (a+b)/2", "東京(とうきょう)",
        "call 0800",
    ]  # fmt: skip


def test_word_keeps_text_in_controls_insertions_fields_and_nested_tables(tmp_path: Path) -> None:
    contents = "<w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj>"
    body = (
        f"<w:p>{run('Leave is ')}<w:ins w:id='1' w:author='A'>{run('thirty ')}</w:ins>"
        f"<w:del w:id='2'>{run('twenty ')}</w:del><w:sdt><w:sdtContent>{run('days ')}</w:sdtContent></w:sdt>"
        f"<w:fldSimple w:instr='REF year'>{run('a year')}</w:fldSimple></w:p>"
    )
    for about, words in ((contents, "Leave 1"), ("<w:text/>", "Signed by the board.")):
        body += (
            f"<w:sdt><w:sdtPr>{about}</w:sdtPr><w:sdtContent><w:p>{run(words)}</w:p></w:sdtContent></w:sdt>"
        )
    nested = "".join(f"<w:tc><w:p>{run(words)}</w:p></w:tc>" for words in ("A", "30"))
    body += f"<w:tbl><w:tr><w:tc><w:p>{run('Grade')}</w:p></w:tc>"
    body += f"<w:tc><w:tbl><w:tr>{nested}</w:tr></w:tbl><w:p/></w:tc></w:tr></w:tbl>"
    assert word(tmp_path / "a.docx", body).split("\n\n") == [
        "Leave is thirty days a year", "Signed by the board.", "| Grade | A 30 |\n| --- | --- |",
    ]  # fmt: skip


def test_text_that_is_struck_out_is_left_out(tmp_path: Path) -> None:
    runs = run("Salmon ", "<w:strike/>") + run("Trout ", "<w:dstrike w:val='true'/>")
    runs += run("Sold out", "<w:strike w:val='0'/>")
    assert word(tmp_path / "a.docx", f"<w:p>{runs}</w:p>") == "Sold out"


def test_a_strict_word_document_is_refused_with_a_remedy(tmp_path: Path) -> None:
    word(tmp_path / "a.docx", f"<w:p>{run('Words')}</w:p>")
    ordinary, strict = (
        "http://schemas.openxmlformats.org/officeDocument/2006/",
        "http://purl.oclc.org/ooxml/officeDocument/",
    )
    with ZipFile(tmp_path / "a.docx") as source, ZipFile(tmp_path / "b.docx", "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(ordinary.encode(), strict.encode()))
    with pytest.raises(UnreadableDocument, match=r"Strict Open XML.*save it as an ordinary Word document"):
        office.read_word(tmp_path / "b.docx")


def test_charts_of_slides_are_tables(tmp_path: Path) -> None:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    presentation: Any = Presentation()
    data: Any = cast(Any, CategoryChartData)()
    data.categories = ["East", "West"]
    data.add_series("2024", (19.2, 0.1 + 0.2))
    data.add_series("2025", (22, None))
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 5_000_000, 4_000_000, data).chart
    chart.chart_title.text_frame.text = "Revenue"
    presentation.save(str(tmp_path / "a.pptx"))
    (page,) = office.read_slides(tmp_path / "a.pptx").pages
    assert (
        page.text
        == "Revenue\n\n|  | 2024 | 2025 |\n| --- | --- | --- |\n| East | 19.2 | 22 |\n| West | 0.3 |  |"
    )


def test_merged_cells_of_word_are_filled(tmp_path: Path) -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{run(text)}</w:p></w:tc>"

    rows = (
        cell("Plan") + cell("Fee", "<w:gridSpan w:val='2'/>"),
        cell("Gold", "<w:vMerge w:val='restart'/>") + cell("1") + cell("10"),
        cell("", "<w:vMerge/>") + cell("2") + cell("12"),
    )
    table = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert word(tmp_path / "a.docx", table).splitlines() == [
        "| Plan | Fee | Fee |", "| --- | --- | --- |", "| Gold | 1 | 10 |", "| Gold | 2 | 12 |",
    ]  # fmt: skip


def test_markdown_stands_and_lines_of_text_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("```bash\n# install it\n```\n\n# Setup\n\n- one\n", "utf-8")
    (tmp_path / "b.txt").write_bytes(
        "# a comment\n| no table\nKöln".encode("utf-16-le").join([b"\xff\xfe", b""])
    )
    assert text.read(tmp_path / "a.md").title == "Setup"
    assert text.read(tmp_path / "a.md").pages[0].text == (tmp_path / "a.md").read_text("utf-8")
    assert text.read(tmp_path / "b.txt").pages[0].text == "\\# a comment\n\\| no table\nKöln"
    assert pages(tmp_path / "c.pdf", ["# include is no heading"]) == ["\\# include is no heading"]


def test_a_lone_quote_in_a_table_swallows_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('name\tsize\n"large\t3\nsmall\t1\n', "utf-8")
    (page,) = text.read_table(tmp_path / "a.tsv").pages
    assert page.text.splitlines()[2:] == ['| "large | 3 |', "| small | 1 |"]


def test_a_file_that_becomes_a_pipe_or_a_link_is_not_waited_for_or_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = tmp_path / "a.txt"
    regular.write_text("secret")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to(regular)
    state = regular.lstat()
    monkeypatch.setattr(Path, "lstat", lambda _: state)  # as it was when it was looked at
    with pytest.raises(UnreadableDocument, match="is empty"):
        read_content(tmp_path / "pipe.txt")
    with pytest.raises(UnreadableDocument, match="symbolic link"):
        read_content(tmp_path / "link.txt")
