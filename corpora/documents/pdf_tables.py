"""Tables of PDF files that are drawn with rules, by pypdfium2 and our rules.

Rules that touch each other are a grid. A grid with two rows and two columns or more is a table; a rule that
is missing between two cells makes them one, whose text stands in the first. Three horizontal rules or more of
one width, framed or not, are a table where the text between them stands in columns: each line is a row.
"""

from __future__ import annotations

import ctypes
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any, NamedTuple

from ragc.corpora.documents.base import continued, table

THIN = 2.0
"""The greatest width of a rule, in points."""

TOUCH = 3.0
"""The greatest gap between rules that touch, in points."""

MAX_RULES = 4_000
"""The most rules of a page that is searched for tables; a drawing has more."""

MIN_GUTTER = 7.0
"""The least width of the space between columns that no rules part, in points."""

MAX_CELL = 28
"""The most letters of a cell, on average, of a table without vertical rules; running text has more."""

MIN_LINES = 3
"""The fewest lines of the cells of a row that are rows themselves."""

MIN_WIDTHS = 4
"""The fewest different letters whose equal widths tell a font of a typewriter."""

Place = tuple[int, int, int]
"""A cell of a page: the numbers of its table, its row and its column."""


class Letter(NamedTuple):
    """A letter, or the value of a form field, with its place and size in points."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    size: float
    is_bold: bool
    is_fixed: bool = False

    @property
    def x(self) -> float:
        """The middle of the letter, counted from the left."""
        return (self.left + self.right) / 2

    @property
    def y(self) -> float:
        """The middle of the letter, counted from the top of the page down, below 0."""
        return -(self.bottom + self.top) / 2


class _Rule(NamedTuple):
    """A straight rule: its place on its axis, and its two ends on the other, in points like a letter's."""

    is_across: bool
    place: float
    start: float
    end: float


def ruled_tables(page: Any, letters: Iterable[Letter]) -> dict[Letter, Place]:
    """Returns the cell of each of these letters of a page of pypdfium2 that stands in a table."""
    visible = [letter for letter in letters if not letter.text.isspace()]
    places, frames = dict[Letter, Place](), defaultdict[tuple[int, ...], list[_Rule]](list)
    for number, rules in enumerate(_grids(_rules(page))):
        across = [rule for rule in rules if rule.is_across]
        down = [rule for rule in rules if not rule.is_across]
        ys, xs = _edges(across, down), _edges(down, across)
        if min(len(ys), len(xs)) > 2:
            cells = _cells(ys, xs, rules)
            for letter in visible:
                if cell := cells.get((bisect(ys, letter.y), bisect(xs, letter.x))):
                    places[letter] = number, *cell
        elif across and len(xs) <= 2:
            ends = round(across[0].start), round(across[0].end)
            frames[(*ends, number) if down else ends] += across
    for number, ((start, end, *_), rules) in enumerate(frames.items(), MAX_RULES):
        ys = _edges(rules, ())
        inside = [letter for letter in visible if start < letter.x < end and ys[0] < letter.y < ys[-1]]
        tops = [] if is_code(inside) or any(letter in places for letter in inside) else ys[1:-1]
        columns = next(filter(None, (_columns(inside, top) for top in tops)), {})
        places |= {letter: (number, *cell) for letter, cell in columns.items()}
    return places


def cells_as_markdown(cells: Mapping[tuple[int, int], Sequence[str]]) -> str:
    """Returns a table of the cells' lines of text by row and column.

    Where each cell of a row has as many lines, `MIN_LINES` or more, these are rows.
    """
    columns, rows = sorted({column for _, column in cells}), list[Sequence[str]]()
    for row in sorted({row for row, _ in cells}):
        lines = [cells.get((row, column), ()) for column in columns]
        are_rows = len(lines[0]) >= MIN_LINES and len({len(cell) for cell in lines}) == 1
        rows += zip(*lines, strict=True) if are_rows else [[reduce(continued, cell, "") for cell in lines]]
    return table(rows)


def on_one_line(letter: Letter, other: Letter) -> bool:
    """Returns whether half of the lower letter stands at the height of the other one."""
    overlap = min(letter.top, other.top) - max(letter.bottom, other.bottom)
    return 2 * overlap > min(letter.top - letter.bottom, other.top - other.bottom)


def is_code(letters: Iterable[Letter]) -> bool:
    """Returns whether nearly all letters of words are of one width, as in fonts of typewriters."""
    words = [letter for letter in letters if letter.text.isalpha()]
    usual = median(letter.right - letter.left for letter in words) if words else 0.0
    alike = [letter.text for letter in words if abs(letter.right - letter.left - usual) <= 0.1]
    return len(alike) >= 0.9 * len(words) and len({*alike}) >= MIN_WIDTHS


def _rules(page: Any) -> set[_Rule]:
    """Returns the straight lines of a page that run along its edges, of boxes too; none of a drawing."""
    import pypdfium2.raw as raw

    rules, x, y = set[_Rule](), ctypes.c_float(), ctypes.c_float()
    for path in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH]):
        matrix, start, last = path.get_matrix(), (0.0, 0.0), (0.0, 0.0)
        for number in range(raw.FPDFPath_CountSegments(path)):
            segment = raw.FPDFPath_GetPathSegment(path, number)
            raw.FPDFPathSegment_GetPoint(segment, x, y)
            point, kind = matrix.on_point(x.value, y.value), raw.FPDFPathSegment_GetType(segment)
            start = point if kind == raw.FPDF_SEGMENT_MOVETO else start
            lines = [(last, point)] if kind == raw.FPDF_SEGMENT_LINETO else []
            lines += [(point, start)] if raw.FPDFPathSegment_GetClose(segment) else []
            last = point
            for (left, low), (right, high) in lines:
                if abs(low - high) <= THIN < abs(left - right):
                    rules.add(_Rule(True, -(low + high) / 2, min(left, right), max(left, right)))
                elif abs(left - right) <= THIN < abs(low - high):
                    rules.add(_Rule(False, (left + right) / 2, -max(low, high), -min(low, high)))
        if len(rules) > MAX_RULES:
            return set()
    return rules


def _grids(rules: Iterable[_Rule]) -> Iterator[list[_Rule]]:
    """Yields the rules of each grid, those that cross or touch each other; rules in one line are joined."""
    joined = list[_Rule]()
    for rule in sorted(rules, key=lambda rule: (rule.is_across, round(rule.place), rule.start)):
        last = joined[-1] if joined else rule
        is_on = last.is_across == rule.is_across and abs(last.place - rule.place) <= THIN
        if joined and is_on and rule.start <= last.end + TOUCH:
            joined[-1] = last._replace(end=max(last.end, rule.end))
        else:
            joined.append(rule)
    while joined:
        grid = [joined.pop()]
        for rule in grid:  # grows
            grid += [other for other in joined if _touch(rule, other)]
            joined = [other for other in joined if not _touch(rule, other)]
        yield grid


def _touch(rule: _Rule, other: _Rule) -> bool:
    return (
        rule.is_across != other.is_across
        and rule.start - TOUCH <= other.place <= rule.end + TOUCH
        and other.start - TOUCH <= rule.place <= other.end + TOUCH
    )


def _edges(rules: Iterable[_Rule], crossing: Iterable[_Rule]) -> list[float]:
    """Returns the places of `rules`, those that touch as one, and the ends of the rules that cross them."""
    ends = sorted(end for rule in crossing for end in (rule.start, rule.end))
    edges = list[float]()
    for place in sorted([*(rule.place for rule in rules), *ends[:1], *ends[-1:]]):
        edges += [place] if not edges or place - edges[-1] > TOUCH else []
    return edges


def _cells(
    ys: Sequence[float], xs: Sequence[float], rules: Iterable[_Rule]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns the cell, by row and column from 1, that each field of a grid belongs to."""

    def is_ruled(is_across: bool, place: float, along: float) -> bool:
        return any(
            rule.is_across == is_across
            and abs(rule.place - place) <= TOUCH
            and rule.start <= along <= rule.end
            for rule in rules
        )

    cells = dict[tuple[int, int], tuple[int, int]]()
    for row, (top, bottom) in enumerate(pairwise(ys), 1):
        for column, (left, right) in enumerate(pairwise(xs), 1):
            is_apart = column == 1 or is_ruled(False, left, (top + bottom) / 2)
            is_below = row == 1 or is_ruled(True, top, (left + right) / 2)
            first = (row, column) if is_apart else (row, column - 1)
            cells[row, column] = cells.get(first, first) if is_below else cells[row - 1, column]
    return cells


def _columns(letters: Sequence[Letter], body: float) -> dict[Letter, tuple[int, int]]:
    """Returns the cell of each letter of lines in columns, by row and column; none where they are not.

    The columns are those of the letters below `body`. Lines that span them are above the table, or cells of
    the first column.
    """
    gutters, lines, reached, bottom = list[float](), list[list[Letter]](), inf, inf
    for letter in sorted((letter for letter in letters if letter.y > body), key=lambda letter: letter.left):
        gutters += [(reached + letter.left) / 2] if letter.left - reached >= MIN_GUTTER else []
        reached = max(reached if reached < inf else 0, letter.right)
    for letter in sorted(letters, key=lambda letter: letter.y):
        is_below = letter.top - bottom <= 0.3 * (letter.top - letter.bottom)
        bottom = letter.bottom if is_below else min(bottom, letter.bottom)
        lines += [[]] if is_below else []
        lines[-1].append(letter)
    places = dict[Letter, tuple[int, int]]()
    for row, line in enumerate(lines):
        is_cut = all(
            min((letter.left for letter in line if letter.x >= gutter), default=inf)
            - max((letter.right for letter in line if letter.x < gutter), default=-inf)
            >= MIN_GUTTER / 2
            for gutter in gutters
        )
        if is_cut or places:
            places |= {letter: (row, bisect(gutters, letter.x) if is_cut else 0) for letter in line}
    cells = {*places.values()}
    filled = Counter(column for _, column in cells)
    is_prose = len(places) > MAX_CELL * len(cells)
    is_even = 2 * min(filled[column] for column in range(len(gutters) + 1)) >= len({row for row, _ in cells})
    return places if gutters and is_even and not is_prose else {}
