"""Lines of PDF files: their order, their ends and their spaces; tables with rules and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora.documents.draw import Line, drawn, text_of, write_objects, write_pdf

pytest.importorskip("pypdfium2")

from ragc.corpora.documents import pdf

TO_HEBREW = (
    "<< /Length 98 >>\nstream\nbegincmap 1 begincodespacerange <00> <ff> endcodespacerange\n"
    "1 beginbfrange <61> <7a> <05d0> endbfrange endcmap\nendstream"
)
PROSE = "Some running text of the page that is long enough to be what most of it is set in"


def test_a_line_from_the_right_is_read_in_its_order(tmp_path: Path) -> None:
    # Each letter stands at its place, words from the right to the left, as browsers print them.
    places = [(300, "a"), (294, "b"), (289, "c"), (250, "PDF 2"), (242, r"\("), (236, "d"), (230, "a")]
    places += [(227, r"\)")]
    stream = "".join(drawn(x, text) for x, text in places)
    assert text_of(tmp_path / "a.pdf", [stream], "/Helvetica /ToUnicode 4 0 R", TO_HEBREW) == "אבג PDF 2 (דא)"


def test_lines_with_aligned_gaps_are_rows_and_one_without_a_first_cell_goes_on(tmp_path: Path) -> None:
    rows = ["Part", "Price"], ["Valve", "12 euro"], ["", "a piece"], ["Pump", "340"]
    cells = [
        (60 + 120 * n, cell, 700 - 12 * row) for row, texts in enumerate(rows) for n, cell in enumerate(texts)
    ]
    stream = "".join(drawn(*cell) for cell in cells) + drawn(
        60, "Words after it that are no row of this table", 640
    )
    table = "| Part | Price |\n| --- | --- |\n| Valve | 12 euro a piece |\n| Pump | 340 |"
    assert text_of(tmp_path / "a.pdf", [stream]).startswith(table)


def test_code_keeps_its_spaces(tmp_path: Path) -> None:
    lines = ["def f(x):", "    if x:", "        return  x", "    return 2"]
    stream = "".join(drawn(60, line, 700 - 12 * n) for n, line in enumerate(lines))
    assert text_of(tmp_path / "a.pdf", [stream], "/Courier") == "\n".join(lines)


def test_a_paragraph_goes_on_after_a_line_that_ends_in_a_hyphen(tmp_path: Path) -> None:
    lines = [
        "The first line of it with an exam-",
        "ple of a word that goes on, and",
        "a third line",
        "with a fourth",
    ]
    stream = "".join(drawn(60, line, 700 - 12 * n) for n, line in enumerate(lines))
    assert text_of(tmp_path / "a.pdf", [stream]) == " ".join(lines).replace("- ", "")


def test_a_large_or_bold_paragraph_is_no_heading(tmp_path: Path) -> None:
    lead = [
        "A summary in large letters says on more than a line",
        "what the whole of the text is about, and it ends.",
    ]
    lines: list[Line] = [(14, 780 - 18 * n, line) for n, line in enumerate(lead)]
    lines += [(14, 700, "Prices"), *((10, 680 - 12 * n, f"Words of line {n} of the text") for n in range(9))]
    assert [
        line
        for line in pdf.read(write_pdf(tmp_path / "a.pdf", [lines])).pages[0].text.split("\n")
        if "#" in line
    ] == ["# Prices"]


def test_a_page_of_a_picture_and_a_running_head_has_no_text(tmp_path: Path) -> None:
    picture = "q 400 0 0 400 60 200 cm BI /W 1 /H 1 /CS /G /BPC 8 ID x EI Q\n"
    streams = [
        drawn(60, "Handbook", 800) + (picture if n == 2 else drawn(60, f"Words {'abcd'[n]}."))
        for n in range(4)
    ]
    text = text_of(tmp_path / "a.pdf", streams)
    assert text == "Words a.\n\nWords b.\n\nWords d.\n\nno text on page 3; it may be a scan"


def test_the_title_on_both_pages_of_a_form_stays(tmp_path: Path) -> None:
    streams = [drawn(60, "Application", 800) + drawn(60, f"Words {letter}.") for letter in "ab"]
    assert text_of(tmp_path / "a.pdf", streams).count("Application") == 2


def test_small_capitals_are_no_superscripts_and_spaces_after_superscripts_stay(tmp_path: Path) -> None:
    line: list[Line] = [(10, 700, "P"), (7, 700, "ERSON", 66.7), (10, 700, "no", 100), (7, 704, "1", 112)]
    line += [(10, 700, "is here", 119)]
    assert pdf.read(write_pdf(tmp_path / "a.pdf", [line])).pages[0].text == "PERSON no^1 is here"


def test_a_ruled_table_keeps_a_cell_of_two_lines_as_one(tmp_path: Path) -> None:
    words = [
        (60, PROSE, 700),
        (65, "Part", 655),
        (165, "Use", 655),
        (65, "Valve", 622),
        (165, "stops the", 627),
    ]
    words += [(165, "flow", 615), (65, "Pump", 595), (60, PROSE, 560)]
    boxes = "60 640 100 30 re S 160 640 100 30 re S 60 610 100 30 re S 160 610 100 30 re S 60 580 200 30 re S"
    table = "| Part | Use |\n| --- | --- |\n| Valve | stops the flow |\n| Pump |  |"
    text = text_of(tmp_path / "a.pdf", ["".join(drawn(*word) for word in words) + boxes])
    assert text == f"{PROSE}\n\n{table}\n\n{PROSE}"


def test_lines_of_a_picture_are_no_table(tmp_path: Path) -> None:
    # The lines of the form stand at 690 to 720 before the page moves them down.
    lines = " ".join(f"60 {y} m 300 {y} l S" for y in (690, 705, 720))
    lines += " " + " ".join(f"{x} 690 m {x} 720 l S" for x in (60, 150, 300))
    text = "".join(
        drawn(70, f"{word} by 20 metre sampling plot in Sweden", y) for word, y in (("10", 709), ("11", 694))
    )
    resources = "<< /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 595 842] >>",
        f"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources {resources} >>",
        f"<< /Length {len(text) + 30} >>\nstream\n{text}q 1 0 0 1 0 -500 cm /X Do Q   \n\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Subtype /Form /BBox [0 0 595 842] /Length {len(lines)} >>\nstream\n{lines}\nendstream",
    ]
    (page,) = pdf.read(write_objects(tmp_path / "a.pdf", objects)).pages
    assert page.text == "10 by 20 metre sampling plot in Sweden 11 by 20 metre sampling plot in Sweden"


def test_framed_running_text_is_no_table(tmp_path: Path) -> None:
    stream = (
        "".join(drawn(60, PROSE, y) for y in (700, 650, 630, 610)) + "50 640 500 30 re S 50 600 500 40 re S"
    )
    assert "|" not in text_of(tmp_path / "a.pdf", [stream])


def test_ligatures_without_unicode_and_turned_text_are_words(tmp_path: Path) -> None:
    turned = "BT /F 10 Tf 0 1 -1 0 40 300 Tm (Rate) Tj ET\n"
    text = text_of(tmp_path / "a.pdf", [drawn(60, r"A \034rst in\035uence") + turned])
    assert text == "A first influence\n\nRate"


def test_the_title_above_the_contents_stays(tmp_path: Path) -> None:
    entries = [f"Chapter of {word} . . . . . . . 2" for word in ("amber", "birch", "cedar", "dune", "elm")]
    first = "".join(drawn(60, line, 780 - 20 * n) for n, line in enumerate(["A book of trees", *entries]))
    assert text_of(tmp_path / "a.pdf", [first, drawn(60, "Words.")]).startswith("A book of trees\n\nWords.")


@pytest.mark.parametrize(
    ("angle", "matrix"), [(90, "0 1 -1 0 100 60"), (180, "-1 0 0 -1 500 700"), (270, "0 -1 1 0 100 700")]
)
def test_a_page_that_is_shown_turned_is_read_as_it_is_shown(angle: int, matrix: str, tmp_path: Path) -> None:
    stream = f"BT /F 10 Tf {matrix} Tm (Water is H) Tj /F 6 Tf -2 Ts (2) Tj 0 Ts /F 10 Tf (O here.) Tj ET"
    assert text_of(tmp_path / "a.pdf", [stream], angle=angle) == "Water is H₂O here."


def test_accents_that_are_drawn_over_letters_belong_to_them(tmp_path: Path) -> None:
    encoding = "/Encoding << /Type /Encoding /Differences [127 /dieresis] >>"
    stream = (
        "BT /F 10 Tf 1 0 0 1 60 700 Tm (F) Tj 1 0 0 1 67.2 700 Tm (\\177) Tj 1 0 0 1 66.1 700 Tm (ur.) Tj ET"
    )
    font = f"/Subtype /Type1 /BaseFont /Helvetica {encoding}"
    assert text_of(tmp_path / "a.pdf", [stream], font) == "Für."


def test_names_and_chains_of_words_keep_their_hyphen_at_the_end_of_a_line(tmp_path: Path) -> None:
    lines = ["It was seen in the T-", "SGX of this machine, an end-", "to-end proof for all exam-", "ples."]
    stream = "".join(drawn(60, line, 700 - 12 * n) for n, line in enumerate(lines))
    text = text_of(tmp_path / "a.pdf", [stream])
    assert text == "It was seen in the T-SGX of this machine, an end-to-end proof for all examples."


def test_addresses_and_paths_that_are_broken_at_the_end_of_a_line_are_whole(tmp_path: Path) -> None:
    lines = [
        "The files are in /usr/share/",
        "doc and the pages at https:",
        "//example.org/a_",
        "b.html and/",
        "or here.",
    ]
    stream = "".join(drawn(60, line, 700 - 12 * n) for n, line in enumerate(lines))
    text = text_of(tmp_path / "a.pdf", [stream]).replace("\n\n", " ")
    assert (
        text == "The files are in /usr/share/doc and the pages at https://example.org/a_b.html and/ or here."
    )


def test_a_foot_beside_the_page_number_stays_if_it_occurs_once(tmp_path: Path) -> None:
    streams = [
        drawn(60, f"Text of the page {'abcd'[n - 1]}.")
        + drawn(60, f"{'To appear in May.' * (n == 1)} {n}", 40)
        for n in range(1, 5)
    ]
    text = text_of(tmp_path / "a.pdf", streams)
    assert text.count("To appear in May.") == 1
    assert not text.endswith("4")


def test_columns_that_a_file_has_one_after_another_are_rows_of_a_table(tmp_path: Path) -> None:
    days = "".join(drawn(60, f"{n:02}/10", 600 - 12 * n) for n in range(1, 10))
    sums = "".join(drawn(300, f"{n * 7}.50", 600.5 - 12 * n) for n in range(1, 10))
    rows = text_of(tmp_path / "a.pdf", [drawn(60, "Payments of October", 620) + days + sums]).split("\n")
    assert rows[2] == "| 01/10 | 7.50 |"
    assert rows[-1] == "| 09/10 | 63.50 |"
