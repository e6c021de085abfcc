"""Text that readers used to lose, to glue to other text, or to take for what it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypdfium2", reason="the extra documents is not installed")

from ragc.corpora.documents import pdf
from tests.corpora.documents.draw import Line, text_of, write_objects, write_pdf


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


def test_a_line_that_had_room_for_the_next_word_ends_its_paragraph(tmp_path: Path) -> None:
    lines = ["To: Ada Lovelace, London", "Date: 1 March 2024", "The committee has read the report of the",
             "northern branch and agrees.", "It asks for a plan of the costs."]  # fmt: skip
    (page,) = pages(tmp_path / "a.pdf", lines)
    assert page.split("\n\n") == [*lines[:2], " ".join(lines[2:4]), lines[4]]


def test_pages_without_text_are_told(tmp_path: Path) -> None:
    document = pdf.read(write_pdf(tmp_path / "a.pdf", [[(10.0, 700.0, "Words.")], [], []]))
    assert document.notes == ("no text on page 2, 3; it may be a scan",)


def test_japanese_words_at_the_end_of_a_line_are_joined_without_a_space(tmp_path: Path) -> None:
    lines = ["自由と民主", "主義の Debian", "憲章"]
    shown = (line.encode("utf-16-be").hex() for line in lines)
    stream = "".join(f"BT /F 10 Tf 60 {700 - 12 * n} Td <{line}> Tj ET " for n, line in enumerate(shown))
    system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 5 >>"
    kind = f"/Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light {system} /FontDescriptor 4 0 R"
    font = f"/Subtype /Type0 /BaseFont /R /Encoding /UniJIS-UCS2-H /DescendantFonts [<< {kind} >>]"
    about = (
        "<< /Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 /FontBBox [0 -200 1000 900] /StemV 80 >>"
    )
    assert text_of(tmp_path / "a.pdf", [stream], font, about) == "自由と民主主義の Debian 憲章"


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
