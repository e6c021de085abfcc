"""Tables of PDF files, ruled or not, and lines that are none."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.documents.draw import Line, write_pdf

pytest.importorskip("pypdfium2")

from ragc.corpora.documents import pdf

PROSE = "Some running text of the page that is long enough to be what most of it is set in"


def rule(path: Path, boxes: Sequence[tuple[float, float, float, float]]) -> Path:
    """Adds boxes, each of a left and a lower edge, a width and a height, to the first page."""
    import pypdfium2 as pdfium

    document: Any = pdfium.PdfDocument(path.read_bytes())
    page = document[0]
    for box in boxes:
        drawn = pdfium.raw.FPDFPageObj_CreateNewRect(*map(ctypes.c_float, box))
        pdfium.raw.FPDFPath_SetDrawMode(drawn, pdfium.raw.FPDF_FILLMODE_NONE, True)
        pdfium.raw.FPDFPage_InsertObject(page, drawn)
    pdfium.raw.FPDFPage_GenerateContent(page)
    document.save(str(path))
    return path


def test_a_ruled_table_keeps_a_cell_of_two_lines_as_one(tmp_path: Path) -> None:
    lines: list[Line] = [
        (10, 700, PROSE), (10, 655, "Part", 65), (10, 655, "Use", 165), (10, 622, "Valve", 65),
        (10, 627, "stops the", 165), (10, 615, "flow", 165), (10, 595, "Pump", 65), (10, 560, PROSE),
    ]  # fmt: skip
    cells = [(60, 640, 100, 30), (160, 640, 100, 30), (60, 610, 100, 30), (160, 610, 100, 30)]
    cells += [(60, 580, 200, 30)]  # one cell across both columns
    path = rule(write_pdf(tmp_path / "table.pdf", [lines]), cells)
    table = "| Part | Use |\n| --- | --- |\n| Valve | stops the flow |\n| Pump |  |"
    assert pdf.read(path).pages[0].text == f"{PROSE}\n\n{table}\n\n{PROSE}"


def test_lines_between_three_rules_are_rows_where_they_stand_in_columns(tmp_path: Path) -> None:
    rows = [("Part", "Price"), ("Valve", "12"), ("Pump", "340")]
    places = [(650, 0), (625, 1), (605, 2)]
    lines: list[Line] = [(10, y, text, 65 + 100 * n) for y, row in places for n, text in enumerate(rows[row])]
    rules = [(60, y, 200, 0.5) for y in (665, 640, 600)]
    path = rule(write_pdf(tmp_path / "table.pdf", [[(10, 700, PROSE), *lines]]), rules)
    table = "| Part | Price |\n| --- | --- |\n| Valve | 12 |\n| Pump | 340 |"
    assert pdf.read(path).pages[0].text == f"{PROSE}\n\n{table}"


def test_framed_running_text_is_no_table(tmp_path: Path) -> None:
    lines: list[Line] = [(10, 700, PROSE), (10, 650, PROSE), (10, 630, PROSE), (10, 610, PROSE)]
    path = rule(write_pdf(tmp_path / "frame.pdf", [lines]), [(50, 640, 500, 30), (50, 600, 500, 40)])
    assert "|" not in pdf.read(path).pages[0].text
