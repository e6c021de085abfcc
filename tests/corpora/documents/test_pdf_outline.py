"""Headings of PDF files: of the outline, those that it leaves out, bold ones, and labels of chapters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.corpora.documents.draw import write_objects

pytest.importorskip("pypdfium2")

from ragc.corpora.documents import pdf

BODY = "Some running text of the page that is long enough to be what most of it is set in"


FONTS = "<< /Font << /F 5 0 R /B << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >> >> >>"


def draw(path: Path, lines: Sequence[tuple[str, float]], outline: Sequence[str]) -> None:
    """Writes a page with `lines`, each of a size, from top to bottom, and an outline of one level.

    A line that begins with `*` is bold; one that begins with `>` stands 30 points further right.
    """
    shown, y = [], 820.0
    for text, size in lines:
        font, left = "B" if "*" in text[:2] else "F", 90 if ">" in text[:2] else 60
        shown.append(f"BT /{font} {size} Tf {left} {y} Td ({text.lstrip('*>')}) Tj ET")
        y -= 2 * size
    stream = "\n".join(shown)
    first, last = 7, 6 + len(outline)
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {'/Outlines 6 0 R' if outline else ''} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources {FONTS} >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Type /Outlines /First {first} 0 R /Last {last} 0 R /Count {len(outline)} >>",
    ]
    for at, name in enumerate(outline, first):
        after = f"/Next {at + 1} 0 R" if at < last else ""
        before = f"/Prev {at - 1} 0 R" if at > first else ""
        objects.append(f"<< /Title ({name}) /Parent 6 0 R /Dest [3 0 R /Fit] {after} {before} >>")
    write_objects(path, objects)


def headings(path: Path, lines: Sequence[tuple[str, float]], outline: Sequence[str] = ()) -> list[str]:
    draw(path, lines, outline)
    return re.findall(r"^#+ (.+)$", pdf.read(path).pages[0].text, re.MULTILINE)


NAMES = ["Setup", "Tuning", "Repair", "Storage", "Prices"]
TEXT = [line for name in NAMES for line in ((name, 16.0), (BODY, 10.0), (BODY, 10.0))]


def test_a_heading_that_the_outline_leaves_out_is_told_by_the_size_of_the_others(tmp_path: Path) -> None:
    lines = [*TEXT, ("A last word", 16.0), (BODY, 10.0), ("Set apart", 13.0), (BODY, 10.0)]
    assert headings(tmp_path / "one.pdf", lines, NAMES) == [*NAMES, "A last word"]
    assert headings(tmp_path / "two.pdf", lines) == [*NAMES, "A last word", "Set apart"]


def test_a_size_that_is_mostly_outside_the_outline_makes_no_headings(tmp_path: Path) -> None:
    others = [line for n in range(8) for line in ((f"Aside number {n} here", 16.0), (BODY, 10.0))]
    assert headings(tmp_path / "one.pdf", [*TEXT, *others], NAMES) == NAMES
    assert headings(tmp_path / "two.pdf", [*TEXT[:6], ("A last word", 16.0)], NAMES[:2]) == NAMES[:2]


def test_bold_lines_are_headings_where_no_line_is_larger(tmp_path: Path) -> None:
    bold = [line for name in NAMES for line in ((f"*{name}", 10.0), (BODY, 10.0), (BODY, 10.0))]
    assert headings(tmp_path / "one.pdf", bold) == NAMES
    assert headings(tmp_path / "two.pdf", [*bold, ("*A last sentence.", 10.0)]) == NAMES
    mostly_bold = [line for name in NAMES for line in ((f"*{name}", 10.0), (BODY, 10.0))]
    assert headings(tmp_path / "three.pdf", mostly_bold) == []  # a list of terms
    assert headings(tmp_path / "four.pdf", [*TEXT, ("*Warning", 10.0), (BODY, 10.0)]) == NAMES  # larger ones


@pytest.mark.parametrize("label", ["Chapter 3", "CHAPTER THREE", "Appendix A"])
def test_the_label_of_a_chapter_alone_is_no_heading(tmp_path: Path, label: str) -> None:
    lines = [(label, 16.0), ("Setup", 16.0), (BODY, 10.0), (BODY, 10.0)]
    assert headings(tmp_path / "one.pdf", lines) == ["Setup"]
