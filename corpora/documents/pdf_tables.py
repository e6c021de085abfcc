"""Tables of PDF files that are drawn with rules, by pypdfium2 and rules of ours.

Rules that touch each other are a grid. A grid with two rows and two columns or more is a table; a rule that
is missing between two cells makes them one, whose text stands in the first. Three horizontal rules or more of
one width, as typeset tables have, are a table where the text between them stands in columns: each line is a
row.
Tables without rules are not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from ragc.corpora.documents.base import escaped, table

THIN = 2.0
"""The greatest width of a rule, in points."""

TOUCH = 3.0
"""The greatest gap between rules that touch, in points."""

MAX_RULES = 4_000
"""The most rules of a page that is searched for tables; a drawing has more."""


MIN_GUTTER = 7.0
"""The least width of the space between columns that no rules part, in points."""

MAX_LINES = 60
"""The most lines of a table whose rows have no rules."""

MAX_CELL = 28
"""The most characters of a cell, on average, of a table without vertical rules; running text has more."""


class Rule(NamedTuple):
    """A straight rule: where it stands on its axis, and its two ends on the other, in points."""

    at: float
    start: float
    end: float


class Area(NamedTuple):
    """A part of a page, in points from its left and its lower edge."""

    left: float
    bottom: float
    right: float
    top: float

    def holds(self, x: float, y: float) -> bool:
        """Returns whether the point is inside, the edges included."""
        return self.left - 1 <= x <= self.right + 1 and self.bottom - 1 <= y <= self.top + 1

    def overlaps(self, other: Area) -> bool:
        """Returns whether the areas have a part in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


@dataclass(frozen=True, slots=True)
class RuledTable:
    """A table on a page: its area, and its cells as Markdown."""

    area: Area
    markdown: str


def ruled_tables(page: Any, text_page: Any) -> list[RuledTable]:
    """Returns the tables of a page of pypdfium2, those with text only."""
    across, down = _rules(page)
    if not 3 <= len(across) + len(down) <= MAX_RULES:
        return []
    tables, open_tables, lone = list[RuledTable](), list[tuple[list[Rule], bool]](), list[Rule]()
    for rows, columns in _grids(_merged(across), _merged(down)):
        ys, xs = _outlined(rows, columns), _outlined(columns, rows) if columns else []
        ys.reverse()
        if len(ys) >= 3 and len(xs) >= 3:
            cells = [
                split
                for row in range(len(ys) - 1)
                for split in _rows(text_page, _row_areas(row, ys, xs, rows, columns))
            ]
            if markdown := table(cells):
                tables.append(RuledTable(Area(xs[0], ys[-1], xs[-1], ys[0]), markdown))
        elif len(ys) >= 3 and len(xs) == 2:
            open_tables.append((rows, False))  # a frame with rules in it
        elif not columns:
            lone += rows
    open_tables += [(rows, True) for rows in _of_one_width(lone)]
    letters = _letters(text_page) if open_tables else []
    for rows, may_be_prose in open_tables:
        ys = sorted({*_levels(rule.at for rule in rows)}, reverse=True)
        area = Area(rows[0].start, ys[-1], rows[0].end, ys[0])
        inside = [
            box for box in letters if area.holds((box.left + box.right) / 2, (box.bottom + box.top) / 2)
        ]
        read = (_columns(text_page, area, body_top, inside) for body_top in ys[1:-1])
        title, cells = next((table for table in read if table[1]), ("", []))
        if (
            cells
            and not _is_code(inside)
            and not (may_be_prose and _is_prose(cells))
            and not any(area.overlaps(other.area) for other in tables)
        ):
            tables.append(RuledTable(area, "\n\n".join(filter(None, (escaped(title), table(cells))))))
    return tables


def _outlined(rules: Sequence[Rule], others: Sequence[Rule]) -> list[float]:
    """Returns where `rules` stand, and the ends of the `others` that cross them: tables may be open there."""
    ends = [end for rule in others for end in (rule.start, rule.end)]
    return _levels([*(rule.at for rule in rules), *([min(ends), max(ends)] if ends else [])])


def _rows(text_page: Any, areas: Sequence[Area | None]) -> list[list[str]]:
    """Returns the cells of a row: of several, where each cell has as many lines, three or more."""
    lines = [text_page.get_text_bounded(*area).splitlines() if area else [] for area in areas]
    count = len(lines[0])
    if count >= 3 and all(len(cell) == count for cell in lines):
        return [[" ".join(line.split()) for line in row] for row in zip(*lines, strict=True)]
    return [[" ".join(" ".join(cell).split()) for cell in lines]]


def _text(text_page: Any, area: Area) -> str:
    return " ".join(text_page.get_text_bounded(*area).split())


def _letters(text_page: Any) -> list[Area]:
    """Returns the boxes of the letters of a page."""
    import pypdfium2.raw as raw

    seen = [
        at
        for at in range(text_page.count_chars())
        if not chr(raw.FPDFText_GetUnicode(text_page.raw, at)).isspace()
    ]
    boxes = (Area(*text_page.get_charbox(at, loose=True)) for at in seen)
    return [box for box in boxes if box.right > box.left and box.top > box.bottom]


def _of_one_width(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Returns the horizontal rules, three or more, that begin and end at the same places."""
    widths: list[list[Rule]] = []
    for rule in rules:
        for alike in widths:
            if abs(alike[0].start - rule.start) <= TOUCH and abs(alike[0].end - rule.end) <= TOUCH:
                alike.append(rule)
                break
        else:
            widths.append([rule])
    return [alike for alike in widths if len(_levels(rule.at for rule in alike)) >= 3]


def _columns(
    text_page: Any, area: Area, body_top: float, letters: Sequence[Area]
) -> tuple[str, list[list[str]]]:
    """Returns the title and the cells of lines of text that stand in columns; none where they do not.

    The columns are those of the lines below `body_top`: what stands above may span several. A line that does
    is the title at the top, and a cell below it.
    """
    lines = _text_lines(letters)
    gaps = _gutters(box for line in lines for box in line if box.bottom < body_top)
    if not gaps or not 2 <= len(lines) <= MAX_LINES:
        return "", []
    title, cells = list[str](), list[list[str]]()
    for line in lines:
        bottom, top = min(box.bottom for box in line), max(box.top for box in line)
        cuts = [_cut(line, gap) for gap in gaps]
        if None in cuts:
            text = _text(text_page, Area(area.left, bottom, area.right, top))
            cells += [[text]] if cells else []
            title += [] if cells else [text]
            continue
        edges = pairwise([area.left, *(cut for cut in cuts if cut is not None), area.right])
        cells.append([_text(text_page, Area(left, bottom, right, top)) for left, right in edges])
    shares = [sum(bool(row[column]) for row in cells if len(row) > 1) for column in range(len(gaps) + 1)]
    return (" ".join(title), cells) if min(shares) * 2 >= len(cells) >= 1 else ("", [])


def _cut(line: Sequence[Area], gap: tuple[float, float]) -> float | None:
    """Returns where `line` is cut at the space `gap` between two columns; None where it goes on there."""
    start, end = gap
    left = max((box.right for box in line if box.left < (start + end) / 2), default=start)
    right = min((box.left for box in line if box.left >= (start + end) / 2), default=end)
    return (left + right) / 2 if right - left >= MIN_GUTTER / 2 else None


def _is_code(letters: Sequence[Area]) -> bool:
    """Returns whether nearly all letters are of one width, as in a listing of code."""
    widths = Counter(round(box.right - box.left, 1) for box in letters)
    return max(widths.values(), default=0) >= 0.9 * len(letters)


def _is_prose(cells: Sequence[Sequence[str]]) -> bool:
    filled = [len(cell) for row in cells for cell in row if cell]
    return not filled or sum(filled) / len(filled) > MAX_CELL


def _text_lines(boxes: Sequence[Area]) -> list[list[Area]]:
    """Returns the boxes by line, from the top of the page down."""
    lines: list[list[Area]] = []
    bottom = 0.0
    for box in sorted(boxes, key=lambda box: -(box.top + box.bottom)):
        if lines and box.top - bottom > 0.3 * (box.top - box.bottom):
            lines[-1].append(box)
            bottom = min(bottom, box.bottom) if box.top - box.bottom > 4 else bottom
        else:
            lines.append([box])
            bottom = box.bottom
    return lines


def _gutters(boxes: Iterable[Area]) -> list[tuple[float, float]]:
    """Returns the stripes between columns, from left to right, that no box reaches into."""
    stripes, reached = list[tuple[float, float]](), 0.0
    for box in sorted(boxes):
        if reached and box.left - reached >= MIN_GUTTER:
            stripes.append((reached, box.left))
        reached = max(reached, box.right)
    return stripes


def _rules(page: Any) -> tuple[list[Rule], list[Rule]]:
    """Returns the horizontal and the vertical rules of a page; boxes are four of them."""
    import pypdfium2.raw as raw

    across, down = list[Rule](), list[Rule]()
    for drawn in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH]):
        left, bottom, right, top = drawn.get_bounds()
        width, height = right - left, top - bottom
        if height <= THIN < width:
            across.append(Rule((top + bottom) / 2, left, right))
        elif width <= THIN < height:
            down.append(Rule((left + right) / 2, bottom, top))
        elif width > THIN and height > THIN and _is_box(drawn):
            across += [Rule(bottom, left, right), Rule(top, left, right)]
            down += [Rule(left, bottom, top), Rule(right, bottom, top)]
        if len(across) + len(down) > MAX_RULES:
            break
    return across, down


def _is_box(drawn: Any) -> bool:
    """Returns whether the path is one rectangle with its sides along the page's."""
    import ctypes

    import pypdfium2.raw as raw

    count = raw.FPDFPath_CountSegments(drawn)
    if not 4 <= count <= 5:
        return False
    points = []
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(drawn, number)
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_BEZIERTO:
            return False
        x, y = ctypes.c_float(), ctypes.c_float()
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        points.append((round(x.value, 1), round(y.value, 1)))
    return len({x for x, _ in points}) == 2 and len({y for _, y in points}) == 2


def _merged(rules: Sequence[Rule]) -> list[Rule]:
    """Returns the rules with those joined that lie in one line and touch."""
    merged: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (round(rule.at), rule.start)):
        last = merged[-1] if merged else None
        if last and abs(last.at - rule.at) <= THIN and rule.start <= last.end + TOUCH:
            merged[-1] = Rule(last.at, last.start, max(last.end, rule.end))
        else:
            merged.append(rule)
    return merged


def _grids(across: Sequence[Rule], down: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Yields the rules of each grid, horizontal and vertical: those that cross or touch each other."""
    rows, columns = set(range(len(across))), set(range(len(down)))
    while rows:
        grid, new = (list[int](), list[int]()), [(0, rows.pop())]
        while new:
            axis, number = new.pop()
            grid[axis].append(number)
            others = rows if axis else columns
            rule = (across, down)[axis][number]
            touching = {other for other in others if _touch(rule, (down, across)[axis][other])}
            others -= touching
            new += [(1 - axis, other) for other in touching]
        yield [across[number] for number in grid[0]], [down[number] for number in grid[1]]


def _touch(rule: Rule, other: Rule) -> bool:
    """Returns whether two rules of different directions cross or touch."""
    return (
        rule.start - TOUCH <= other.at <= rule.end + TOUCH
        and other.start - TOUCH <= rule.at <= other.end + TOUCH
    )


def _levels(places: Iterable[float]) -> list[float]:
    """Returns the places in order, those that touch as one."""
    levels: list[float] = []
    for level in sorted(places):
        if not levels or level - levels[-1] > TOUCH:
            levels.append(level)
    return levels


def _row_areas(
    row: int, ys: Sequence[float], xs: Sequence[float], across: Sequence[Rule], down: Sequence[Rule]
) -> list[Area | None]:
    """Returns the area of each cell in `row`; None for one that belongs to a cell above or to its left."""
    areas: list[Area | None] = []
    middle = (ys[row] + ys[row + 1]) / 2
    for column in range(len(xs) - 1):
        centre = (xs[column] + xs[column + 1]) / 2
        if (row and not _is_ruled(across, ys[row], centre)) or (
            column and not _is_ruled(down, xs[column], middle)
        ):
            areas.append(None)
            continue
        end, last = column + 1, row + 1
        while end < len(xs) - 1 and not _is_ruled(down, xs[end], middle):
            end += 1
        while last < len(ys) - 1 and not _is_ruled(across, ys[last], centre):
            last += 1
        areas.append(Area(xs[column], ys[last], xs[end], ys[row]))
    return areas


def _is_ruled(rules: Sequence[Rule], at: float, along: float) -> bool:
    """Returns whether one of `rules` stands at `at` and passes the place `along`."""
    return any(abs(rule.at - at) <= TOUCH and rule.start <= along <= rule.end for rule in rules)
