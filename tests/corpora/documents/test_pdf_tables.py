"""Tables of PDF files with rules, drawn here with PDFium."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pdfium = pytest.importorskip("pypdfium2", reason="the extra documents is not installed")

from ragc.corpora.documents import pdf  # noqa: E402 - after the library

Line = tuple[float, float, float, float]
Word = tuple[float, float, str]


def draw(path: Path, words: Sequence[Word], lines: Sequence[Line], font: bytes = b"Helvetica") -> list[str]:
    """Writes a page with words at (x, y) and lines from (x, y) to (x, y); returns the blocks read."""
    raw = pdfium.raw
    document: Any = pdfium.PdfDocument.new()
    page = document.new_page(595, 842)
    letters = raw.FPDFText_LoadStandardFont(document, font)
    for x, y, text in words:
        item = raw.FPDFPageObj_CreateTextObj(document, letters, 10)
        encoded = f"{text}\x00".encode("utf-16-le")
        buffer = ctypes.create_string_buffer(encoded, len(encoded))
        raw.FPDFText_SetText(item, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)))
        raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, x, y)
        raw.FPDFPage_InsertObject(page, item)
    for x, y, to_x, to_y in lines:
        drawn = raw.FPDFPageObj_CreateNewPath(x, y)
        raw.FPDFPath_LineTo(drawn, to_x, to_y)
        raw.FPDFPath_SetDrawMode(drawn, raw.FPDF_FILLMODE_NONE, True)
        raw.FPDFPageObj_SetStrokeWidth(drawn, 0.5)
        raw.FPDFPage_InsertObject(page, drawn)
    raw.FPDFPage_GenerateContent(page)
    document.save(str(path))
    (only,) = pdf.read(path).pages
    return only.text.split("\n\n")


def rows_of(ys: Sequence[float], left: float = 60, right: float = 360) -> list[Line]:
    return [(left, y, right, y) for y in ys]


def columns_of(xs: Sequence[float], bottom: float = 640, top: float = 700) -> list[Line]:
    return [(x, bottom, x, top) for x in xs]


BODY = [
    (65.0, 685.0, "Tea"), (165.0, 685.0, "3.50"), (265.0, 685.0, "green"),
    (65.0, 665.0, "Coffee"), (165.0, 665.0, "2.80"), (265.0, 665.0, "a|b"),
    (65.0, 645.0, "Water"), (265.0, 645.0, "still"),
]  # fmt: skip
TABLE = "| Tea | 3.50 | green |\n| --- | --- | --- |\n| Coffee | 2.80 | a\\|b |\n| Water |  | still |"


def test_a_ruled_grid_is_a_table_between_the_paragraphs_around_it(tmp_path: Path) -> None:
    words = [(60.0, 750.0, "The words before."), *BODY, (60.0, 600.0, "The words after.")]
    lines = [*rows_of((700, 680, 660, 640)), *columns_of((60, 160, 260, 360))]
    assert draw(tmp_path / "a.pdf", words, lines) == ["The words before.", TABLE, "The words after."]


def test_a_table_may_be_open_at_its_sides(tmp_path: Path) -> None:
    lines = [*rows_of((680, 660)), *columns_of((160, 260))]
    assert draw(tmp_path / "a.pdf", BODY, lines) == [TABLE]


def test_a_missing_rule_makes_two_cells_one(tmp_path: Path) -> None:
    words = [(65.0, 685.0, "Drinks of the house"), *(word for word in BODY if word[1] < 680)]
    lines = [
        *rows_of((700, 680, 660, 640)),
        *columns_of((60, 360)),
        *columns_of((160, 260), top=680),
    ]
    assert draw(tmp_path / "a.pdf", words, lines)[0].splitlines()[0] == "| Drinks of the house |  |  |"


def test_rules_above_and_below_make_a_table_where_the_text_stands_in_columns(tmp_path: Path) -> None:
    words = [(65.0, 705.0, "What"), (165.0, 705.0, "Price"), (265.0, 705.0, "Kind"), *BODY]
    (block,) = draw(tmp_path / "a.pdf", words, rows_of((720, 700, 640)))
    assert block.splitlines()[::2] == [
        "| What | Price | Kind |",
        "| Tea | 3.50 | green |",
        "| Water |  | still |",
    ]


def test_running_text_between_rules_is_no_table(tmp_path: Path) -> None:
    words = [(60.0, y, "The words of a paragraph that goes on and on over lines.") for y in (685, 665, 645)]
    (block,) = draw(tmp_path / "a.pdf", words, rows_of((700, 680, 660, 640)))
    assert block.startswith("The words of a paragraph")


def test_a_listing_of_code_in_a_frame_is_no_table(tmp_path: Path) -> None:
    words = [(65.0, 685.0, "-rw-r--r-- root   a.txt"), (65.0, 665.0, "-rw-r--r-- root   b.txt")]
    lines = [*rows_of((700, 680, 660)), *columns_of((60, 360), bottom=660)]
    assert not any("|" in block for block in draw(tmp_path / "a.pdf", words, lines, b"Courier"))


def test_a_box_around_text_and_a_drawing_are_no_tables(tmp_path: Path) -> None:
    box = [*rows_of((700, 640)), *columns_of((60, 360))]
    assert not any("|" in block for block in draw(tmp_path / "a.pdf", BODY[:2], box))
    hatched = [(60 + n % 90, 500.0, 60 + n % 90, 600.0) for n in range(4_200)]
    blocks = draw(tmp_path / "b.pdf", BODY, [*rows_of((700, 680, 660, 640)), *hatched])
    assert not any("|" in block.replace("a|b", "") for block in blocks)
