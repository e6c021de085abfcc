"""PDF files, by pypdfium2 and our rules: headings, paragraphs, no page headers, footers and page numbers.

Headings are the entries of the outline if the file has one, and lines of a size that has mostly such entries:
outlines leave some headings out. Else a line is a heading if it is larger than the running text; a larger
size is a higher level. Where no lines are larger, bold ones are headings, first of all those that stand out
to the left. Lines at the top or bottom of many pages with the same words, numbers ignored, are
page headers and footers. A word that was broken at the end of a line is joined. Tables with rules are tables.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, title_of
from ragc.corpora.documents.pdf_tables import RuledTable, ruled_tables

MIN_HEADING_RATIO = 1.12
"""How many times larger than the running text a heading is, at least."""

MAX_HEADING = 120
"""The most characters of a heading."""

EDGE_LINES = 3
"""The lines at the top, and at the bottom, of a page that may be its head or foot."""

MIN_OF_A_SIZE = 5
"""The fewest entries of the outline that make other lines of their size headings."""

MIN_BOLD = 3
"""The fewest bold lines of a file that are headings."""

MAX_BOLD_SHARE = 0.35
"""The greatest share of a file's lines that are headings because they are bold."""

MIN_MARGIN_SHARE = 0.1
"""The least share of the letters that begin where the running text does, and not in a margin."""

_BOLD = re.compile(r"bold|black|heavy|demi|(?:cm|sf|ec)bx", re.IGNORECASE)
_NUMBERED = re.compile(r"^(?:(?:\d{1,3}|[A-Z])(?:\.\d{1,3})*\.?|(?:Chapter|Appendix|Part)\s+\w+[.:]?)\s+\S")
_LABEL = re.compile(r"^(?:chapter|appendix|part)\s+[\w.]+$", re.IGNORECASE)
_LEADERS = re.compile(r"(?:\.\s?){4,}\s*\d*\s*$")
_PAGE_NUMBER = re.compile(
    r"^[-–\s]*(?:page\s+)?(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:of|/)\s*\d{1,4})?[-–\s]*$", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*(?:[•◦▪‣·–-]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a page: its text, the size of its letters, its top, bottom and left edge in points.

    A table is one line, whose text is Markdown.
    """

    text: str
    size: float
    top: float
    bottom: float
    is_table: bool = False
    left: float = 0.0
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the outline: its level from 1, words, and the number of its page from 0."""

    level: int
    words: str
    page: int


def read(path: Path, *, outlined: bool = True) -> Document:
    """Reads all pages; headings come from the outline if there is one and `outlined` allows it.

    Raises UnreadableDocument for a file that is encrypted, damaged or without text.
    """
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        encrypted = "password" in str(error).lower()
        raise UnreadableDocument(
            "is encrypted" if encrypted else f"is truncated or damaged ({error})"
        ) from error
    try:
        lines = [_lines(document[number]) for number in range(len(document))]
        outline = [
            _Entry(item.level + 1, outline_words(title), page) for item, title, page in _outline(document)
        ]
        title = " ".join((document.get_metadata_value("Title") or "").split())
    finally:
        document.close()
    if not any(lines):
        raise UnreadableDocument(f"has no text on its {len(lines)} pages; they may be scans")
    outline = outline if outlined else []
    pages: Sequence[Sequence[_Line]] = _without_edges(lines)
    pages = pages if outline else _with_bold_headings(pages)
    levels = _levels(pages)
    if outline:
        levels = _levels_in(outline, pages, levels)
    texts = [_PageWriter(page, number, outline, levels).text() for number, page in enumerate(pages)]
    return Document(title or title_of(path), tuple(_labelled(texts)))


def _outline(document: Any) -> Iterator[tuple[Any, str, int]]:
    for item in document.get_toc(max_depth=8):
        target = item.get_dest()
        page = target.get_index() if target is not None else None
        if (title := item.get_title()) and page is not None:
            yield item, title, page


def _lines(page: Any) -> list[_Line]:
    """Returns the lines of a page in the order of the file, each table where its first line stands."""
    import pypdfium2.raw as raw

    text_page = page.get_textpage()
    try:
        text, lines, at = text_page.get_text_range(), list[_Line](), 0
        tables, written = ruled_tables(page, text_page), set[RuledTable]()
        for line in text.splitlines(keepends=True):
            words = line.strip()
            first = at + len(line) - len(line.lstrip())
            at += len(line)
            if not words:
                continue
            size = float(raw.FPDFText_GetFontSize(text_page.raw, first))
            box = text_page.get_charbox(first, loose=True)
            height = box[3] - box[1]
            inside = next((one for one in tables if one.area.holds(box[0], (box[1] + box[3]) / 2)), None)
            if inside is not None:
                if inside not in written:
                    written.add(inside)
                    lines.append(_Line(inside.markdown, 0, inside.area.top, inside.area.bottom, True))
                continue
            is_bold = _is_bold(text_page, first, first + len(words) - 1)
            size = round(size if size > 2 else height, 1)
            lines.append(_Line(words, size, box[3], box[1], left=box[0], is_bold=is_bold))
        return lines
    finally:
        text_page.close()
        page.close()


def _is_bold(text_page: Any, first: int, last: int) -> bool:
    """Returns whether the letters from `first` to `last` are bold, by three of them."""
    return all(_BOLD.search(_font(text_page, at)) for at in dict.fromkeys((first, last, (first + last) // 2)))


def _font(text_page: Any, at: int) -> str:
    """Returns the name of the font of a letter."""
    import ctypes

    import pypdfium2.raw as raw

    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(text_page.raw, at, name, len(name), None)
    return name.value.decode("utf-8", "replace")


def outline_words(text: str) -> str:
    """Returns a heading in the form in which outline and page are compared: words, without its number."""
    unnumbered = re.sub(r"^(?:(?i:chapter|appendix|part)\s+)?[\dA-Z]{1,3}(?:\.\d+)*[.:]?\s+", "", text)
    return re.sub(r"[\W_]+", " ", unnumbered).strip().casefold()


def _without_edges(pages: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Returns the lines without page headers, footers and page numbers."""
    places: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, page in enumerate(pages):
        for line in _edges(page):
            places[_shape(line)].add(number)
    enough = max(3, len(pages) // 8)
    bodies = []
    for page in pages:
        edges = _edges(page)
        left_out = {
            id(line)
            for line in edges
            if (_PAGE_NUMBER.match(line.text) and len(pages) > 1) or len(places[_shape(line)]) >= enough
        }
        bodies.append([line for line in page if id(line) not in left_out])
    return bodies


def _edges(page: Sequence[_Line]) -> list[_Line]:
    """Returns the highest and the lowest lines of a page."""
    ordered = sorted((line for line in page if not line.is_table), key=lambda line: -line.top)
    return ordered if len(ordered) <= 2 * EDGE_LINES else [*ordered[:EDGE_LINES], *ordered[-EDGE_LINES:]]


def _shape(line: _Line) -> tuple[str, int]:
    """Returns the key that equal page headers share: the words without numbers, and the height."""
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", line.text.casefold()), round(line.top / 6)


def _with_bold_headings(pages: Sequence[Sequence[_Line]]) -> Sequence[Sequence[_Line]]:
    """Returns the lines; where few headings are larger than the text, bold lines count as larger."""
    lines = [line for page in pages for line in page if not line.is_table]
    sizes = _levels(pages)
    if not lines or sum(line.size in sizes and _may_be_heading(line) for line in lines) >= MIN_OF_A_SIZE:
        return pages
    weights, starts = Counter[float](), Counter[int]()
    for line in lines:
        weights[line.size] += len(line.text)
        starts[round(line.left)] += 0 if line.is_bold else len(line.text)
    body = weights.most_common(1)[0][0]
    left = min(start for start, n in starts.items() if n >= MIN_MARGIN_SHARE * starts.total())
    bold = [line for line in lines if line.is_bold and line.size >= 0.95 * body and _may_be_heading(line)]
    out = [line for line in bold if line.left < left - body / 2 or line.size > 1.04 * body]
    chosen = out if len(out) >= MIN_BOLD else [line for line in bold if line.left <= left + 1]
    if not MIN_BOLD <= len(chosen) <= MAX_BOLD_SHARE * len(lines):
        return pages
    lefts = sorted({line.left for line in chosen})
    steps = [after for before, after in pairwise([-body, *lefts]) if after - before > body / 3]
    styles = {id(line): (-line.size, bisect_right(steps, line.left)) for line in chosen}
    ranks = {style: rank for rank, style in enumerate(sorted(set(styles.values())))}
    larger = {one: body * (2 - ranks[style] / (2 * len(ranks))) for one, style in styles.items()}
    return [[replace(line, size=larger.get(id(line), line.size)) for line in page] for page in pages]


def _may_be_heading(line: _Line) -> bool:
    """Returns whether the words of a line are those of a heading."""
    named = re.search(r"[^\W\d_]{2}", line.text) and not _LABEL.match(line.text)
    return bool(named) and not line.text.endswith((".", ",", ";")) and len(line.text) <= MAX_HEADING


def _levels(pages: Sequence[Sequence[_Line]]) -> dict[float, int]:
    """Returns the level of headings by size, for sizes above that of the running text."""
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page:
            if line.is_table:
                continue
            weights[line.size] += len(line.text)
    if not weights:
        return {}
    body = weights.most_common(1)[0][0]
    sizes = sorted({size for size in weights if size >= body * MIN_HEADING_RATIO}, reverse=True)
    return dict.fromkeys(sizes[:-4], 1) | {size: at for at, size in enumerate(sizes[-4:], 1)}


def _levels_in(
    outline: Sequence[_Entry], pages: Sequence[Sequence[_Line]], sizes: Collection[float]
) -> dict[float, int]:
    """Returns the level of headings by size, for those of `sizes` whose lines are mostly in the outline."""
    levels: dict[float, Counter[int]] = defaultdict(Counter)
    for number, page in enumerate(pages):
        writer = _PageWriter(page, number, outline, {})
        for at, line in enumerate(page):
            if line.size in sizes:
                levels[line.size][writer.heading(at)[0]] += 1
    common = {size: seen.most_common(1)[0] for size, seen in levels.items()}
    return {size: level for size, (level, n) in common.items() if level and n >= MIN_OF_A_SIZE}


class _PageWriter:
    """Writes one page as Markdown."""

    def __init__(
        self, lines: Sequence[_Line], number: int, outline: Sequence[_Entry], levels: Mapping[float, int]
    ) -> None:
        self.lines, self.levels = lines, levels
        self.entries = [entry for entry in outline if entry.page == number and entry.words]
        gaps = [a.bottom - b.top for a, b in pairwise(lines) if a.bottom > b.top]
        self.usual_gap = median(gaps) if gaps else 0.0

    def text(self) -> str:
        """Returns the page as paragraphs and headings."""
        blocks: list[str] = []
        paragraph: list[_Line] = []
        at = 0
        while at < len(self.lines):
            level, taken = self.heading(at)
            if level:
                blocks += self._paragraph(paragraph)
                words = " ".join(line.text for line in self.lines[at : at + taken])
                blocks.append(f"{'#' * min(level, 6)} {_joined([words])}")
                paragraph, at = [], at + taken
                continue
            line = self.lines[at]
            if line.is_table:
                blocks += [*self._paragraph(paragraph), line.text]
                paragraph, at = [], at + 1
                continue
            if paragraph and self._begins(paragraph[-1], line):
                blocks += self._paragraph(paragraph)
                paragraph = []
            paragraph.append(line)
            at += 1
        return "\n\n".join([*blocks, *self._paragraph(paragraph)])

    def heading(self, at: int) -> tuple[int, int]:
        """Returns the level of the heading that begins at line `at`, 0 for none, and its number of lines."""
        line = self.lines[at]
        if line.is_table or _LEADERS.search(line.text) or len(line.text) > MAX_HEADING:
            return 0, 1
        for taken in (1, 2, 3):
            words = outline_words(_joined([other.text for other in self.lines[at : at + taken]]))
            entry = next((entry for entry in self.entries if entry.words == words), None)
            if entry is not None and at + taken <= len(self.lines):
                self.entries.remove(entry)
                return entry.level, taken
        level = self.levels.get(line.size, 0)
        if not level or not _may_be_heading(line):
            return 0, 1
        taken = 1
        while taken < 3 and at + taken < len(self.lines) and self._continues(at + taken - 1):
            taken += 1
        return level, taken

    def _continues(self, at: int) -> bool:
        """Returns whether the heading in line `at` continues in the next: as large, close, unnumbered."""
        line, after = self.lines[at], self.lines[at + 1]
        near = 0 <= line.bottom - after.top <= line.size
        return line.size == after.size and near and not _NUMBERED.match(after.text) and len(line.text) > 30

    def _begins(self, before: _Line, line: _Line) -> bool:
        """Returns whether `line` begins a paragraph after the line `before`."""
        gap = before.bottom - line.top
        return (
            gap > min(self.usual_gap, 0.8 * line.size) + 0.35 * line.size
            or gap < -2 * line.size
            or abs(before.size - line.size) > 0.5
            or bool(_BULLET.match(line.text))
        )

    def _paragraph(self, lines: Sequence[_Line]) -> list[str]:
        return [escaped(_joined([line.text for line in lines]))] if lines else []


def _joined(lines: Sequence[str]) -> str:
    """Returns lines as one; words that were broken at the end of a line are joined."""
    return re.sub("[\x02\ufffe\xad]\\s*", "", " ".join(lines))


def _labelled(texts: Sequence[str]) -> Iterator[Page]:
    """Yields the pages that hold text, with the path of headings at their beginning."""
    path: dict[int, str] = {}
    for number, text in enumerate(texts, 1):
        if text:
            yield Page(text, f"page {number}", tuple(path[level] for level in sorted(path)))
        for heading in re.finditer(r"^(#{1,6}) (.+)$", text, re.MULTILINE):
            level = len(heading.group(1))
            path = {above: words for above, words in path.items() if above < level} | {
                level: heading.group(2)
            }
