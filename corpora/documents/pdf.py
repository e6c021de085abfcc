"""PDF files, by pypdfium2 and our rules: headings, paragraphs, no running heads and page numbers.

Headings are the entries of the outline if the file has one, and lines of a style that has mostly such
entries, since outlines leave some headings out. Else a style that is larger or bolder than the running text
is one of headings; a larger one is of a higher level. Words broken at the end of a line are joined.
Superscripts and subscripts stay apart from the text before them, lines of code keep their ends. Tables are
those that rules divide (`pdf_tables`), and consecutive lines with equally many parts between wide spaces, if
these are not columns of running text.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby, pairwise, takewhile
from math import inf
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from ragc.corpora.documents.base import (
    Document,
    Page,
    UnreadableDocument,
    continued,
    escaped,
    lowered,
    raised,
    real_title,
    table,
)
from ragc.corpora.documents.pdf_tables import (
    Letter,
    Place,
    cells_as_markdown,
    is_code,
    on_one_line,
    ruled_tables,
)

MIN_HEADING_RATIO = 1.12
"""How many times larger than the running text a heading is, at least, unless it is bold."""

MAX_BOLD_SHARE = 0.35
"""The greatest share of a file's lines that are headings because they are bold."""

MAX_HEADING = 120
"""The most characters of a heading."""

EDGE_LINES = 3
"""The lines at the top, and at the bottom, of a page that may be running heads and feet."""

COLUMN_GAP = 1.25
"""The space between the parts of a line, in heights of the line, at least."""

MIN_ROWS = 3
"""The fewest lines of a table, which have equally many parts."""

MAX_CELL = 28
"""The most characters of the cells of a table, on average."""

MIN_OF_A_STYLE = 5
"""The fewest entries of the outline that make other lines of their style headings."""

FIXED_PITCH = 1
"""The flag of a font whose letters are all of one width, in the format PDF."""

FIRST_SQUARE = "\u2e80"
"""The first of the letters of Chinese and Japanese, which are of one width in running text too."""

_PAGE_NUMBER = (
    r"\W*(?:page|pag|página|pagina|seite|side|sida|strona|стр|第)?\W*(?:{})"
    r"\W*(?:(?:of|von|de|sur|af|av|z|из)?\W*\d+)?\W*(?:页|頁|ページ)?\W*"
)
_GARBLED = re.compile("[A-Za-z][\u0600-\u06ff]|[\u0600-\u06ff][A-Za-z]|[\ue000-\uf8ff\ufffd\x03-\x08]")
_OWN_NUMBER = re.compile(r"\d{4}|[^\W\d_].*\d{3}")
_NO_HEADING = re.compile(r"(?:chapter|appendix|part)\s+[\w.]+|.*[.,;]|(?!.*[^\W\d_]{2}).*", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:(?:\.\s?){4,}|[^\W\d_]{2}, )(?:\d{1,4}, )*(\d{1,4})$")
_BULLET = re.compile(r"^\s*(?:[•◦▪‣·–-]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")


class _Line(NamedTuple):
    """A line of a page: its parts between wide spaces, the style of its letters and its place in points.

    A table is a line of one part, which is Markdown.
    """

    parts: tuple[str, ...]
    size: float
    is_bold: bool
    top: float
    bottom: float
    left: float
    is_table: bool = False
    is_code: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.parts)


def read(path: Path, *, outlined: bool = True) -> Document:
    """Reads all pages; headings come from the outline if there is one and `outlined` allows it.

    Values of form fields stand at their place. Pages without text, and those whose fonts do not say which
    letters they show, are noted. Raises UnreadableDocument for a file that is encrypted, damaged or without
    text.
    """
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        encrypted = "password" in str(error).lower()
        raise UnreadableDocument(
            "is encrypted" if encrypted else f"is truncated or damaged ({error})"
        ) from error
    document.init_forms()
    pages = [_lines(document, page) for page in document]
    labels = [
        {str(number), document.get_page_label(number - 1) or str(number)}
        for number in range(1, len(pages) + 1)
    ]
    outline = defaultdict[int, dict[str, int]](dict)
    for entry in document.get_toc(max_depth=8) if outlined else ():
        if (target := entry.get_dest()) is not None and (words := outline_words(entry.get_title())):
            outline[target.get_index() or 0][words] = entry.level + 1
    empty = [str(number) for number, page in enumerate(pages, 1) if not page]
    if len(empty) == len(pages):
        raise UnreadableDocument(f"has no text on its {len(pages)} pages; they may be scans")
    texts = [" ".join(line.text for line in page) for page in pages]
    garbled = [
        str(n) for n, text in enumerate(texts, 1) if 10 * len(_GARBLED.findall(text)) > len(text.split())
    ]
    pages = _without_chapter_heads(_without_edges(pages, labels), labels)
    listing = [str(number) for number, page in enumerate(pages, 1) if _is_listing(page, len(pages))]
    if len(listing) + len(empty) < len(pages):
        pages = [[] if str(number) in listing else page for number, page in enumerate(pages, 1)]
    lefts = Counter[int]()
    for line in chain(*pages):
        lefts[round(line.left)] += 0 if line.is_bold else len(line.text)
    margin = min((left for left, letters in lefts.items() if letters >= 0.1 * lefts.total()), default=0)
    pages = [
        [line._replace(is_bold=line.is_bold and line.left <= margin + 1) for line in page] for page in pages
    ]
    levels = _levels(pages, outline)
    section, result = dict[int, str](), list[Page]()
    for number, lines in enumerate(pages):
        blocks, before = list[str](), tuple(section.values())
        for segment in _segments(lines):
            blocks += [segment] if isinstance(segment, str) else []
            for level, text in () if isinstance(segment, str) else _blocks(segment, outline[number], levels):
                lines_of_text = (
                    [f"{'#' * min(level, 6)} {' '.join(text.split())}"]
                    if level
                    else map(escaped, text.split("\n"))
                )
                blocks.append("\n".join(lines_of_text))
                if level:
                    section = {above: section[above] for above in section if above < level} | {level: text}
        if blocks:
            result.append(Page("\n\n".join(blocks), f"page {number + 1}", before))
    notes = [f"no text on page {', '.join(empty)}; it may be a scan"] if empty else []
    notes += [f"left out page {', '.join(listing)}, a table of contents or an index"] if listing else []
    notes += [f"text on page {', '.join(garbled)} may be unreadable; fonts lack Unicode"] if garbled else []
    return Document(real_title(document.get_metadata_value("Title")), tuple(result), tuple(notes))


def _lines(document: Any, page: Any) -> list[_Line]:
    """Returns the lines of a page in the order of the file, with the values of form fields at their place."""
    import pypdfium2.raw as raw

    text_page, box, rows = page.get_textpage(), raw.FS_RECTF(), [list[Letter]()]
    name, value, flags = ctypes.create_string_buffer(128), (ctypes.c_ushort * 2048)(), ctypes.c_int()
    for position in range(text_page.count_chars()):
        text = chr(raw.FPDFText_GetUnicode(text_page, position))
        raw.FPDFText_GetLooseCharBox(text_page, position, box)
        size = raw.FPDFText_GetFontSize(text_page, position)
        raw.FPDFText_GetFontInfo(text_page, position, name, len(name), flags)
        size, is_bold = round(size if size > 2 else box.top - box.bottom, 1), _is_bold(name.value)
        if text == "\n":
            rows.append([])
        elif text != "\r":
            place = box.left, box.bottom, box.right, box.top
            rows[-1].append(Letter(text, *place, size, is_bold, is_fixed=bool(flags.value & FIXED_PITCH)))
    lines = list[list[Letter]]()
    for row in filter(None, rows):
        end = lines[-1][-1].right if lines else inf
        if -1 <= row[0].left - end <= row[0].size and on_one_line(lines[-1][0], row[0]):
            lines[-1] += row  # a superscript had ended the line
        else:
            lines.append(row)
    for number in range(raw.FPDFPage_GetAnnotCount(page) if document.formenv else 0):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        length = raw.FPDFAnnot_GetFormFieldValue(document.formenv, annotation, value, ctypes.sizeof(value))
        text = bytes(value)[:length].decode("utf-16-le", "replace").rstrip("\x00")
        if text not in ("", "Off") and raw.FPDFAnnot_GetRect(annotation, box):
            field = Letter(f" {text} ", box.left, box.bottom, box.left, box.top, box.top - box.bottom, False)
            line = next((line for line in lines if on_one_line(line[0], field)), [])
            lines += [] if line else [line]
            line.insert(bisect(line, field.left, key=lambda letter: letter.left), field)
    return _with_tables(page, lines)


def _with_tables(page: Any, lines: Sequence[Sequence[Letter]]) -> list[_Line]:
    """Returns the lines of these letters, each table where its first line stands."""
    places, result, starts = ruled_tables(page, chain(*lines)), list[_Line](), dict[int, int]()
    tables = defaultdict[int, dict[tuple[int, int], list[str]]](lambda: defaultdict(list))
    for line in lines:
        runs, place = defaultdict[Place | None, list[Letter]](list), None
        for letter in line:
            place = place if letter.text.isspace() else places.get(letter)
            runs[place].append(letter)
        for place, run in runs.items():
            if not any(letter.text.strip() for letter in run):
                continue
            text = _line(run)
            if place is None or place[0] not in starts:
                result.append(text)
            if place is not None:
                starts.setdefault(place[0], len(result) - 1)
                tables[place[0]][place[1:]].append(text.text)
    for number, start in starts.items():
        parts = (cells_as_markdown(tables[number]),)
        result[start] = result[start]._replace(parts=parts, is_bold=False, is_table=True)
    return result


@cache
def _is_bold(font: bytes) -> bool:
    return re.search(rb"bold|black|heavy|demi|(?:cm|sf|ec)bx", font, re.IGNORECASE) is not None


def _line(letters: Sequence[Letter]) -> _Line:
    """Returns the line of these letters; smaller ones above and below are super- and subscripts."""
    visible = [letter for letter in letters if not letter.text.isspace()]
    size = Counter(letter.size for letter in visible).most_common(1)[0][0]
    usual = next(letter for letter in visible if letter.size == size)

    def writing(letter: Letter) -> Callable[[str], str]:
        height = letter.bottom - usual.bottom if letter.size < 0.9 * size and len(letter.text) == 1 else 0
        return (
            raised
            if height > 0.12 * (usual.top - usual.bottom)
            else lowered
            if height < 0 and letter.text.isalnum()
            else str
        )

    wide = inf if is_code(visible) else COLUMN_GAP * (usual.top - usual.bottom)
    letters_only = [letter for letter in visible if len(letter.text) == 1]  # a field belongs to its label
    gaps = {id(right) for left, right in pairwise(letters_only) if right.left - left.right > wide}
    runs = groupby(letters, writing)
    text = "".join(
        write("".join("\t" * (id(letter) in gaps) + letter.text for letter in run)) for write, run in runs
    )
    parts = tuple(" ".join(part.split()) for part in text.split("\t"))
    fixed = sum(letter.is_fixed for letter in visible)
    is_western = all(letter.text < FIRST_SQUARE for letter in visible)
    return _Line(
        parts,
        size,
        all(letter.is_bold for letter in visible),
        usual.top,
        usual.bottom,
        visible[0].left,
        is_code=is_western and (fixed >= 0.9 * len(visible) or is_code(visible)),
    )


def outline_words(text: str) -> str:
    """Returns a heading in the form in which outline and page are compared: words, without its number."""
    unnumbered = re.sub(r"^(?:(?i:chapter|appendix|part)\s+)?[\dA-Z]{1,3}(?:\.\d+)*[.:]?\s+", "", text)
    return re.sub(r"[\W_]+", " ", unnumbered).strip().casefold()


def _without_edges(pages: Sequence[list[_Line]], labels: Sequence[set[str]]) -> list[list[_Line]]:
    """Returns the lines without running heads and feet.

    They stand at one place at the edge of most pages, with the same words, or with the number of the page
    alone at one of their ends. A page that has nothing else keeps them.
    """
    keys = list[dict[_Line, tuple[str, int]]]()
    for page, numbers in zip(pages, labels, strict=True):
        own_number = re.compile(_PAGE_NUMBER.format("|".join(map(re.escape, numbers))), re.IGNORECASE)
        keys.append({})
        for line in page:
            is_numbered = any(own_number.fullmatch(part) for part in (line.parts[0], line.parts[-1]))
            keys[-1][line] = "#" if is_numbered else line.text, round(line.top / 6)
    seen = Counter(key for page in keys for key in {*page.values()})
    bodies = list[list[_Line]]()
    for keyed in keys:
        running = {line for line, key in keyed.items() if seen[key] > 1 and 2 * seen[key] > len(pages)}
        order = sorted(keyed, key=lambda line: -line.top)
        edges = order[:EDGE_LINES], order[: -EDGE_LINES - 1 : -1]
        left_out = {line for edge in edges for line in takewhile(running.__contains__, edge)}
        body = [line for line in keyed if line not in left_out]
        bodies.append(body if any(re.search(r"[^\W\d_]", line.text) for line in body) else list(keyed))
    return bodies


def _without_chapter_heads(pages: Sequence[list[_Line]], labels: Sequence[set[str]]) -> list[list[_Line]]:
    """Returns the lines without running heads and feet that change with the chapter.

    They stand apart at one place at the edge of most pages, no larger than the running text. One of their
    parts, without the number of the page, is also at that place on one of the two pages before or after. A
    line whose other parts have a number like that of an invoice is none.
    """
    letters = Counter[float]()
    for line in chain(*pages):
        letters[line.size] += len(line.text)
    body = max(letters, key=lambda size: letters[size], default=0.0)
    heads = list[dict[_Line, tuple[int, set[str]]]]()
    for page, numbers in zip(pages, labels, strict=True):
        order = sorted(page, key=lambda line: -line.top)
        own_number = "|".join(map(re.escape, numbers))
        at_an_end = re.compile(rf"^(?:{own_number})\b\W*|\W*\b(?:{own_number})$")
        heads.append({})
        for line, inner in (order[:2], order[:-3:-1]) if len(order) > 2 else ():
            is_apart = max(inner.bottom - line.top, line.bottom - inner.top) > line.top - line.bottom
            if is_apart and line.size <= body and not line.is_table:
                heads[-1][line] = round(line.top / 6), {at_an_end.sub("", part) for part in line.parts}
    running = list[dict[_Line, int]]()
    for number, candidates in enumerate(heads):
        near = [*heads[max(0, number - 2) : number], *heads[number + 1 : number + 3]]
        seen_near = {(place, part) for page in near for place, parts in page.values() for part in parts}
        running.append({})
        for line, (place, parts) in candidates.items():
            again = {part for part in parts if (place, part) in seen_near}
            if any(re.search(r"[^\W\d_]", part) for part in again) and not any(
                _OWN_NUMBER.search(part) for part in parts - again
            ):
                running[-1][line] = place
    seen = Counter(place for page in running for place in page.values())
    return [
        [line for line in page if line not in places or 2 * seen[places[line]] <= len(pages)]
        for page, places in zip(pages, running, strict=True)
    ]


def _is_listing(lines: Sequence[_Line], pages: int) -> bool:
    """Returns whether most lines refer to pages of the file, as in a table of contents or an index."""
    references = {line: int(match.group(1)) for line in lines if (match := _REFERENCE.search(line.text))}
    rows = (line for line in lines if references and len(line.parts) > 1 and line.parts[-1].isdecimal())
    references |= {row: int(row.parts[-1]) for row in rows}  # entries without dots
    return len(lines) >= MIN_OF_A_STYLE and 2 * sum(n <= pages for n in references.values()) > len(lines)


def _levels(
    pages: Sequence[Sequence[_Line]], outline: Mapping[int, Mapping[str, int]]
) -> dict[tuple[float, bool], int]:
    """Returns the level of headings by size and boldness.

    With an outline these are the styles whose lines are mostly in it.
    """
    letters, lines = Counter[tuple[float, bool]](), Counter[tuple[float, bool]]()
    entries = defaultdict[tuple[float, bool], Counter[int]](Counter)
    for number, page in enumerate(pages):
        for line in page:
            letters[line.size, line.is_bold] += len(line.text)
            lines[line.size, line.is_bold] += _NO_HEADING.fullmatch(line.text) is None
            entries[line.size, line.is_bold][outline[number].get(outline_words(line.text), 0)] += 1
    (body, bold), _ = letters.most_common(1)[0]
    styles = [style for style in letters if style[0] >= MIN_HEADING_RATIO * body]
    if any(outline.values()):
        common = {style: entries[style].most_common(1)[0] for style in styles}
        return {style: level for style, (level, times) in common.items() if level and times >= MIN_OF_A_STYLE}
    if not bold and sum(lines[style] for style in styles) < MIN_OF_A_STYLE:
        rare = [
            style for style in letters if style[1] and lines[style] <= MAX_BOLD_SHARE * sum(map(len, pages))
        ]
        styles += [style for style in rare if 0.95 * body <= style[0] < MIN_HEADING_RATIO * body]
    return {style: min(level, 4) for level, style in enumerate(sorted(styles, reverse=True), 1)}


def _segments(lines: Sequence[_Line]) -> Iterator[list[_Line] | str]:
    """Yields the tables of a page as Markdown, and the lines between them; text in columns one by one."""
    between = list[_Line]()
    for width, run in groupby(lines, lambda line: 0 if line.is_table else len(line.parts)):
        rows = list(run)
        if not width:
            yield between
            yield from (row.text for row in rows)
            between = []
            continue
        is_grid = width > 1 and len(rows) >= MIN_ROWS
        is_table = is_grid and mean(len(part) for row in rows for part in row.parts) <= MAX_CELL
        if is_table:
            yield between
            yield table([row.parts for row in rows])
            between = []
        else:
            columns = range(width) if is_grid else ()
            between += [row._replace(parts=(row.parts[n],)) for n in columns for row in rows] or rows
    yield between


def _blocks(
    lines: Sequence[_Line], entries: dict[str, int], levels: Mapping[tuple[float, bool], int]
) -> Iterator[tuple[int, str]]:
    """Yields the headings in consecutive lines, with their level, and the paragraphs, with 0."""
    usual_gap = median([above.bottom - below.top for above, below in pairwise(lines)] or [0.0])
    number = 0
    while number < len(lines):
        level, end = _heading(lines[number : number + 3], entries, levels)
        end += number
        while not level and end < len(lines) and not _begins(lines[end - 1], lines[end], usual_gap):
            if _heading(lines[end : end + 3], dict(entries), levels)[0]:
                break
            end += 1
        yield level, _joined(lines[number:end])
        number = end


def _heading(
    lines: Sequence[_Line], entries: dict[str, int], levels: Mapping[tuple[float, bool], int]
) -> tuple[int, int]:
    """Returns the level of the heading that `lines` begin with, 0 for none, and its number of lines.

    One of the outline is removed from `entries`.
    """
    for count in range(1, len(lines) + 1):
        if level := entries.pop(outline_words(_joined(lines[:count])), 0):
            return level, count
    first = lines[0]
    level = levels.get((first.size, first.is_bold), 0)
    if not level or len(first.text) > MAX_HEADING or _NO_HEADING.fullmatch(first.text):
        return 0, 1
    count = 1
    for above, below in pairwise(lines):
        if (
            above[1:3] != below[1:3]
            or not 0 <= above.bottom - below.top <= above.size
            or len(above.text) <= 30
        ):
            break
        count += 1
    return level, count


def _begins(above: _Line, line: _Line, usual_gap: float) -> bool:
    """Returns whether `line` begins a paragraph after the line `above`."""
    gap = above.bottom - line.top
    return (
        gap > min(usual_gap, 0.8 * line.size) + 0.35 * line.size
        or gap < -2 * line.size
        or abs(above.size - line.size) > 0.5
        or _BULLET.match(line.text) is not None
    )


def _joined(lines: Sequence[_Line]) -> str:
    """Returns lines as one; words that were broken at the end of a line are joined, lines of code are not."""
    text = lines[0].text
    for above, line in pairwise(lines):
        text = f"{text}\n{line.text}" if above.is_code and line.is_code else continued(text, line.text)
    return re.sub("[\x02\ufffe\xad]\\s*", "", text)
