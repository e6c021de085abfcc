"""The lines and ruled tables of a page of a PDF file, by pypdfium2 and our rules.

A line is divided at wide gaps. Lines with letters that are written from right to left are put in the order in
which they are read, from the places of their letters. Superscripts and subscripts stay apart from the text
before them; lines of code keep their spaces. Rules that touch each other are a grid, a table if its fields
have two rows and two columns or more; where a rule is missing between two fields, their text is one cell.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import chain, groupby, pairwise
from math import hypot, inf
from statistics import mean, median
from typing import Any, NamedTuple
from unicodedata import bidirectional, normalize

from ragc.corpora.documents.base import continued, lowered, raised, table

HYPHENS = "\x02\ufffe"
"""What pdfium writes for a hyphen that divides a word at the end of a line, in place of that end."""

COLUMN_GAP = 1.0
"""The least space between the parts of a line, in sizes of its letters."""

WORD_GAP = 0.2
"""The least space between words, in sizes of the letters."""

THIN, TOUCH = 2.0, 3.0
"""The greatest width of a rule, and the greatest gap between rules that touch, in points."""

MAX_RULES = 4_000
"""The most rules of a page that is searched for tables; a drawing has more."""

MAX_CELL = 200
"""The most letters of a cell of a ruled table, on average; boxes around running text have more."""

MAX_SCRIPT = 6
"""The most letters of a superscript or subscript; small words that stand higher have more."""

_LIGATURES = {11: "ff", 12: "fi", 14: "ffi", 15: "ffl", 27: "ff", 28: "fi", 29: "fl", 30: "ffi", 31: "ffl"}
"""What the letters of TeX's fonts mean that come as control letters where a file does not say it."""

_ACCENTS = dict(zip("¨´`ˆ˜¸˚ˇ", "\u0308\u0301\u0300\u0302\u0303\u0327\u030a\u030c", strict=True))
"""The accents that old fonts of TeX draw over a letter, as marks that combine with it."""

_UPRIGHT: Mapping[int, Callable[[float, float, float, float], tuple[float, ...]]] = {
    90: lambda left, low, right, high: (0, -1, 1, 0, -low, right),
    180: lambda left, low, right, high: (-1, 0, 0, -1, right, high),
    270: lambda left, low, right, high: (0, 1, -1, 0, high, -left),
}
"""The matrix that turns the content of a page with these edges by the angle at which it is shown."""

_KINDS = {"R": "R", "AL": "R", "NSM": "R", "L": "L", "EN": "N", "AN": "N", "ET": "E", "CS": "C", "WS": "W"}
"""The bidirectional classes as letters from right to left, from left to right, digits, signs at digits,
commas and spaces."""

_FROM_LEFT = re.compile("(?:N[^R]*)?L(?:[^R]*[LN])?|N(?:[^RLW]*N)?")
_FROM_RIGHT = re.compile("R(?:(?:(?!CW)[^L])*R)?")  # in a list, commas stand before spaces
_BRACKETS = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_TURNED = re.compile(r"(?<![^\s([{<«])[)\]}>»](?=[^\s.,:;])|(?<=[^\s([{<«])[(\[{<«](?![^\s.,:;؛،])")


class Text(NamedTuple):
    """A letter, the value of a form field or a part of a line, with its place and size in points.

    `base` is the height of its baseline.
    """

    text: str
    left: float
    right: float
    base: float
    size: float
    is_bold: bool = False
    is_fixed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Line:
    """A line of a page, or a table where `cells` has the lines of text of its cells by row and column.

    `width` is that of a letter of code, 0 for running text.
    """

    parts: tuple[Text, ...]
    size: float
    is_bold: bool
    base: float
    width: float = 0.0
    cells: Mapping[tuple[float, float], list[str]] | None = None

    @property
    def text(self) -> str:
        """The text of all parts, or cells."""
        return " ".join(chain(*self.cells.values()) if self.cells else (part.text for part in self.parts))

    @property
    def left(self) -> float:
        """The left end of the line."""
        return min(part.left for part in self.parts)

    @property
    def right(self) -> float:
        """The right end of the line."""
        return max(part.right for part in self.parts)


class _Rule(NamedTuple):
    """The box of a straight rule, in points."""

    left: float
    low: float
    right: float
    high: float


def lines_of(document: Any, number: int) -> list[Line]:
    """Returns the lines of the page `number`, from 0, in the order of the file, each table where its first
    line stands.

    Values of form fields stand at their place.
    """
    page, lines = _upright(document, number), list[list[Text]]()
    for row in map(_accented, filter(None, _rows(page.get_textpage()))):
        end, start = (lines[-1][-1] if lines else row[0]._replace(base=inf)), row[0]
        is_next = start.left > end.left or abs(end.left - start.right) <= start.size
        if is_next and abs(start.base - end.base) < 0.5 * max(start.size, end.size):
            lines[-1] += row  # a superscript, a mark or a wide gap had ended the line
        else:
            lines.append(row)
    _add_fields(document, page, lines)
    places, result = _ruled_cells(page, [*chain(*lines)]), list[Line]()
    tables = defaultdict[float, dict[tuple[float, float], list[str]]](dict)
    for letters in lines:
        for place, run in groupby(letters, places.get):
            line = _line([*run])
            if line and place:
                if place[0] not in tables:
                    result.append(replace(line, is_bold=False, cells=tables[place[0]]))
                tables[place[0]].setdefault(place[1:], []).append(line.text)
            elif line:
                result.append(line)
    return result


def _upright(document: Any, number: int) -> Any:
    """Returns a page whose content is turned as the page is shown."""
    import pypdfium2.raw as raw

    page = document[number]
    if angle := page.get_rotation():
        matrix = _UPRIGHT[angle](*page.get_mediabox())
        raw.FPDFPage_TransFormWithClip(page, raw.FS_MATRIX(*matrix), None)
        raw.FPDFPage_TransformAnnots(page, *matrix)
        page.set_rotation(0)
        page = document[number]  # read again
    return page


def as_markdown(cells: Mapping[tuple[float, float], Sequence[str]]) -> str:
    """Returns a table of the cells' lines of text by row and column.

    Where each cell of a row has as many lines, three or more, these are rows.
    """
    columns, rows = sorted({column for _, column in cells}), list[Sequence[str]]()
    for row in sorted({row for row, _ in cells}):
        lines = [cells.get((row, column), ()) for column in columns]
        are_rows = len(lines[0]) > 2 and len({len(cell) for cell in lines}) == 1
        rows += zip(*lines, strict=True) if are_rows else [[reduce(continued, cell, "") for cell in lines]]
    return table(rows)


def _rows(text_page: Any) -> Iterator[list[Text]]:
    """Yields the letters of a page as pdfium divides them into lines, which may be empty."""
    import pypdfium2.raw as raw

    box, matrix, x, y = raw.FS_RECTF(), raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    name, flags, row = ctypes.create_string_buffer(128), ctypes.c_int(), list[Text]()
    for position in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(text_page, position)
        text = _LIGATURES.get(code, chr(code))
        raw.FPDFText_GetLooseCharBox(text_page, position, box)
        raw.FPDFText_GetCharOrigin(text_page, position, x, y)
        raw.FPDFText_GetMatrix(text_page, position, matrix)
        raw.FPDFText_GetFontInfo(text_page, position, name, len(name), flags)
        size = raw.FPDFText_GetFontSize(text_page, position) * hypot(matrix.c, matrix.d)
        if text not in "\r\n":
            is_bold, is_fixed = _is_bold(name.value), flags.value & 1 == 1
            base = row[0].base if row and abs(matrix.b) > 0.3 * abs(matrix.a) else y.value  # of turned text
            row.append(Text(text, box.left, box.right, base, round(size, 1), is_bold, is_fixed))
        if text in f"\n{HYPHENS}":
            yield row
            row = []
    yield row


def _accented(letters: list[Text]) -> list[Text]:
    """Returns letters with the accents that are drawn over them."""
    for mark in [letter for letter in letters if letter.text in _ACCENTS]:
        middle = (mark.left + mark.right) / 2
        for place, letter in enumerate(letters):
            is_below = letter.left < middle < letter.right and letter.text not in _ACCENTS
            if is_below and letter.text.isalpha():
                letters[place] = letter._replace(text=normalize("NFC", letter.text + _ACCENTS[mark.text]))
                drawn = letters.index(mark)
                around = slice(max(0, drawn - 1), drawn + 2)  # pdfium put spaces there
                letters[around] = [near for near in letters[around] if near is not mark and near.text != " "]
                if letters[-1].text == "-":  # the accent hid the end of the line from pdfium
                    letters[-1] = letters[-1]._replace(text=HYPHENS[0])
                break
    return letters


@cache
def _is_bold(font: bytes) -> bool:
    return re.search(rb"bold|black|heavy|demi|(?:cm|sf|ec)bx", font, re.IGNORECASE) is not None


def _add_fields(document: Any, page: Any, lines: list[list[Text]]) -> None:
    """Adds the values of form fields to the lines at their height, or between the lines."""
    import pypdfium2.raw as raw

    box, value = raw.FS_RECTF(), (ctypes.c_ushort * 2048)()
    for number in range(raw.FPDFPage_GetAnnotCount(page) if document.formenv else 0):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        length = raw.FPDFAnnot_GetFormFieldValue(document.formenv, annotation, value, ctypes.sizeof(value))
        text = bytes(value)[:length].decode("utf-16-le", "replace").rstrip("\x00")
        if text not in ("", "Off") and raw.FPDFAnnot_GetRect(annotation, box):
            field = Text(f" {text} ", box.left, box.left, box.bottom, box.top - box.bottom)
            line = next((line for line in lines if box.bottom <= line[0].base < box.top), [])
            below = (number for number, line in enumerate(lines) if line[0].base < box.bottom)
            lines[next(below, len(lines)) :] += [] if line else [line]
            line.insert(bisect(line, field.left, key=lambda letter: letter.left), field)


def _line(letters: Sequence[Text]) -> Line | None:
    """Returns the line of these letters, None for spaces."""
    visible = [letter for letter in letters if not letter.text.isspace()]
    if not visible:
        return None
    size = Counter(letter.size for letter in visible).most_common(1)[0][0]
    base = Counter(letter.base for letter in visible if letter.size == size).most_common(1)[0][0]
    is_bold = all(letter.is_bold for letter in visible)
    left, width = visible[0].left, median(letter.right - letter.left for letter in visible)
    alike = [letter.text for letter in visible if abs(letter.right - letter.left - width) <= 0.1]
    is_typed = len({*alike}) > 3 or sum(letter.is_fixed for letter in visible) >= 0.9 * len(visible)
    if is_typed and width and len(alike) >= 0.9 * len(visible) and max(visible).text < "\u2e80":
        text = ""
        for letter in visible:
            text += " " * (round((letter.left - left) / width) - len(text)) + letter.text
        return Line((Text(text, left, visible[-1].right, base, size),), size, is_bold, base, width)
    kinds = Counter(bidirectional(letter.text[0]) for letter in visible)
    from_right = kinds["R"] + kinds["AL"]
    letters = _by_place(letters) if from_right else letters
    parts, end = [list[Text]()], inf
    for letter in letters:
        is_drawn = letter.left < letter.right and not letter.text.isspace()
        gap = letter.left - end if is_drawn else 0.0  # the value of a form field belongs to its label
        if gap > COLUMN_GAP * size:
            parts.append([])
        elif gap > WORD_GAP * size and not parts[-1][-1].text.isspace():
            parts[-1].append(letter._replace(text=" "))
        parts[-1].append(letter)
        end = letter.right if is_drawn else end
    texts = list[Text]()
    for part in reversed(parts) if 3 * from_right > kinds["L"] else parts:
        ends = [end for letter in part if not letter.text.isspace() for end in (letter.left, letter.right)]
        is_from_right = 3 * from_right > kinds["L"] and any(_kind(letter) == "R" for letter in part)
        text = _text(_as_read(part, is_from_right), size, base)
        texts += [Text(text, min(ends), max(ends), base, size)] if ends else []
    return Line(tuple(texts), size, is_bold, base)


def _text(letters: Sequence[Text], size: float, base: float) -> str:
    """Returns the text of these letters; smaller ones above and below are super- and subscripts.

    In text with letters from the right, brackets that open after words or close before them are turned.
    """
    text, is_from_right = "", any(_kind(letter) == "R" for letter in letters)
    for height, run in groupby(
        letters, lambda letter: (letter.size < 0.9 * size) * round((letter.base - base) / size / 0.2)
    ):
        words = "".join(letter.text for letter in run)
        place = height if len(words.strip()) <= MAX_SCRIPT else 0
        text += raised(words) if place > 0 else lowered(words) if place < 0 and words.isalnum() else words
    text = " ".join(text.split())
    return _TURNED.sub(lambda sign: sign[0].translate(_BRACKETS), text) if is_from_right else text


def _kind(letter: Text) -> str:
    return _KINDS.get(bidirectional(letter.text[:1]), "O")


def _by_place(letters: Sequence[Text]) -> list[Text]:
    """Returns letters from left to right; marks before the letter below them, spaces between neighbours."""
    drawn = [letter for letter in letters if not letter.text.isspace() or letter.left < letter.right]
    marks = {letter for letter in drawn if bidirectional(letter.text[0]) == "NSM"}
    middles = {letter: (letter.left + letter.right) / 2 for letter in drawn}
    bases = [middles[letter] for letter in drawn if letter not in marks and not letter.text.isspace()]
    nearest = {mark: min(bases, key=lambda x: abs(x - middles[mark]), default=0.0) - 0.01 for mark in marks}
    order = {letter: -n if _kind(letter) == "R" else n for n, letter in enumerate(drawn)}  # of ligatures
    result = sorted(drawn, key=lambda letter: (nearest.get(letter, middles[letter]), order[letter]))
    words = [
        [*run] for is_space, run in groupby(letters, lambda letter: letter.text.isspace()) if not is_space
    ]
    apart = {frozenset((before[-1], after[0])) for before, after in pairwise(words)}
    for place, (left, right) in reversed([*enumerate(pairwise(result), 1)]):
        if frozenset((left, right)) in apart and right.left - left.right > 0.1 * left.size:
            result.insert(place, right._replace(text=" "))
    return result


def _as_read(letters: Sequence[Text], is_from_right: bool) -> list[Text]:
    """Returns letters that stand from left to right in the order in which they are read."""
    kinds = re.sub("(?<=N)E+|E+(?=N)", lambda signs: "N" * len(signs[0]), "".join(map(_kind, letters)))
    result, end = list[Text](), 0
    for run in (_FROM_LEFT if is_from_right else _FROM_RIGHT).finditer(kinds):
        outside, inside = letters[end : run.start()], letters[run.start() : run.end()]
        if is_from_right:
            result = [*inside, *reversed(outside), *result]
        else:
            result += [*outside, *_as_read(inside, True)]
        end = run.end()
    return [*reversed(letters[end:]), *result] if is_from_right else [*result, *letters[end:]]


def _ruled_cells(page: Any, letters: Sequence[Text]) -> dict[Text, tuple[float, float, float]]:
    """Returns the table, the row and the column of each of these letters that stands in a ruled table.

    Rows and columns are the places of the nearest rules above and to the left of a letter.
    """
    places = dict[Text, tuple[float, float, float]]()
    for number, grid in enumerate(_grids(page)):
        down = [rule for rule in grid if rule.left == rule.right]
        lines = [rule for rule in grid if rule.low == rule.high]  # some may stand under words
        across = [rule for rule in lines if any(_touch(rule, near) for near in down)]
        if not across:
            continue
        rules = [*across, *down]
        left, low = min(rule.left for rule in rules), min(rule.low for rule in rules)
        right, high = max(rule.right for rule in rules), max(rule.high for rule in rules)
        cells = dict[Text, tuple[float, float]]()
        for before, letter in pairwise([*letters[:1], *letters]):
            x, y = (letter.left + letter.right) / 2, letter.base + 0.3 * letter.size
            is_same_word = before.base == letter.base and abs(letter.left - before.right) < 0.1 * letter.size
            if letter.text.isspace() or (is_same_word and not before.text.isspace() and before in cells):
                cells |= {letter: cells[before]} if before in cells else {}
            elif left < x < right and low < y < high:
                above = [
                    rule.low
                    for rule in across
                    if rule.low >= y and rule.left - TOUCH <= x <= rule.right + TOUCH
                ]
                to_left = [
                    rule.left
                    for rule in down
                    if rule.left <= x and rule.low - TOUCH <= y <= rule.high + TOUCH
                ]
                cells[letter] = -round(min(above, default=high)), round(max(to_left, default=left))
        lengths = Counter(cell for letter, cell in cells.items() if not letter.text.isspace())
        rows, columns = (len({cell[axis] for cell in lengths}) for axis in (0, 1))
        is_filled = min(rows, columns) > 1 and len(lengths) > max(rows, columns, rows * columns / 3)
        if is_filled and mean(lengths.values()) <= MAX_CELL:
            places |= {letter: (number, *cell) for letter, cell in cells.items()}
    return places


def _grids(page: Any) -> Iterator[list[_Rule]]:
    """Yields the rules of a page and the edges of its boxes that touch each other; none of a drawing."""
    import pypdfium2.raw as raw

    drawn = set[_Rule]()
    for path in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=1):
        left, low, right, high = path.get_bounds()
        if raw.FPDFPath_CountSegments(path) <= 5:
            xs, ys = (left, right)[: 1 + (right - left > THIN)], (low, high)[: 1 + (high - low > THIN)]
            drawn |= {_Rule(left, y, right, y) for y in ys if right - left > THIN}
            drawn |= {_Rule(x, low, x, high) for x in xs if high - low > THIN}
    rules = sorted(drawn) if len(drawn) <= MAX_RULES else []
    while rules:
        grid = [rules.pop()]
        for rule in grid:  # grows
            grid += [near for near in rules if _touch(rule, near)]
            rules = [apart for apart in rules if not _touch(rule, apart)]
        yield grid


def _touch(rule: _Rule, near: _Rule) -> bool:
    is_beside = rule.left - TOUCH <= near.right and near.left <= rule.right + TOUCH
    return is_beside and rule.low - TOUCH <= near.high and near.low <= rule.high + TOUCH
