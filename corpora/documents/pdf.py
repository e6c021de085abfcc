"""PDF files, by pypdfium2 and our rules: headings, paragraphs, no running heads and page numbers.

Headings are the entries of the outline if the file has one, and lines of a style that has mostly such
entries, since outlines leave some headings out. Else a style that is larger or bolder than the running text
is one of headings; a larger one is of a higher level. Words broken at the end of a line are joined. Tables
are those that rules divide (`pdf_lines`), and consecutive lines whose parts stand below each other, if these
are not columns of running text.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, pairwise, takewhile
from math import inf
from pathlib import Path
from statistics import mean, median
from typing import Any

from ragc.corpora.documents.base import (
    Document,
    Page,
    UnreadableDocument,
    continued,
    escaped,
    real_title,
)
from ragc.corpora.documents.pdf_lines import HYPHENS, Line, as_markdown, lines_of

MIN_HEADING_RATIO = 1.12
"""How many times larger than the running text a heading is, at least, unless it is bold."""

MAX_BOLD_SHARE = 0.35
"""The greatest share of a file's lines that are headings because they are bold."""

MIN_GUTTER = 0.3
"""The least space between the columns of a table without rules, in sizes of its letters."""

MAX_CELL = 28
"""The most characters of the cells of a column, on average, beside columns of running text."""

MIN_COLUMN = 8
"""The fewest lines of a column that is put beside others."""

MIN_OF_A_STYLE = 5
"""The fewest entries of the outline that make other lines of their style headings."""

_PAGE_NUMBER = (
    r"\W*(?:page|pag|página|pagina|seite|side|sida|strona|стр|第)?\W*(?:{})"
    r"\W*(?:(?:of|von|de|sur|af|av|z|из)?\W*\d+)?\W*(?:页|頁|ページ)?\W*"
)
_GARBLED = re.compile("[A-Za-z][\u0600-\u06ff]|[\u0600-\u06ff][A-Za-z]|[\ue000-\uf8ff\ufffd\x03-\x08]")
_LETTER = re.compile(r"[^\W\d_]")
_OWN_NUMBER = re.compile(r"\d{4}|[^\W\d_].*\d{3}")
_NO_HEADING = re.compile(r"(?:chapter|appendix|part)\s+[\w.]+|.*[.,;]|(?!.*[^\W\d_]{2}).*", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:(?:\.\s?){4,}|[^\W\d_]{2}, )(?:\d{1,4}, )*(\d{1,4})$")
_GOES_ON = re.compile(r"\w-$|(?:^|\s)https?:(?://\S*[/_])?$|(?:^|\s)(?:www\.|/)\S*[/_]$")
"""The end of a line that the next one continues without a space: a hyphen, part of an address or path."""

_BULLET = re.compile(r"\s*(?:[•◦▪‣·–-]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")


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
        is_encrypted = "password" in str(error).lower()
        reason = "is encrypted" if is_encrypted else f"is truncated or damaged ({error})"
        raise UnreadableDocument(reason) from error
    document.init_forms()
    pages = [_in_rows(lines_of(document, number)) for number in range(len(document))]
    if not any(pages):
        raise UnreadableDocument(f"has no text on its {len(pages)} pages; they may be scans")
    texts = [" ".join(line.text for line in page) for page in pages]
    garbled = [n for n, text in enumerate(texts) if 10 * len(_GARBLED.findall(text)) > len(text.split())]
    outline = defaultdict[int, dict[str, int]](dict)
    for entry in document.get_toc(max_depth=8) if outlined else ():
        if (target := entry.get_dest()) is not None and (words := _words(entry.get_title())):
            outline[target.get_index() or 0][words] = entry.level + 1
    pages = _without_heads(document, pages)
    empty = [n for n, page in enumerate(pages) if not page]
    references = [_references(page, len(pages)) for page in pages]
    listing = [n for n, lines in enumerate(references) if lines]
    if len(listing) + len(empty) < len(pages):
        first = [*takewhile(lambda line: line not in references[0], pages[0])]  # a title stands above
        pages = [first, *([] if n in listing else page for n, page in enumerate(pages[1:], 1))]
    levels, section, result = _levels(pages, outline), dict[int, str](), list[Page]()
    for number, lines in enumerate(pages):
        blocks, before = list[str](), tuple(section.values())
        for level, text in _blocks(lines, outline[number], levels):
            if level:
                title = text.partition(" ")[2]
                section = {above: section[above] for above in section if above < level} | {level: title}
            blocks.append(text)
        if blocks:
            result.append(Page("\n\n".join(blocks), f"page {number + 1}", before))
    notes = [
        note.format(", ".join(str(n + 1) for n in numbers))
        for note, numbers in (
            ("no text on page {}; it may be a scan", empty),
            ("left out page {}, a table of contents or an index", listing),
            ("text on page {} may be unreadable; fonts lack Unicode", garbled),
        )
        if numbers
    ]
    return Document(real_title(document.get_metadata_value("Title")), tuple(result), tuple(notes))


def _words(text: str) -> str:
    """Returns a heading in the form in which outline and page are compared: words, without its number."""
    number = r"^(?:(?i:chapter|appendix|part)\s+)?[\dA-Z]{1,3}(?:\.\d+)*[.:]?\s+"
    return re.sub(r"[\W_]+", " ", re.sub(number, "", text)).strip().casefold()


def _in_rows(lines: Sequence[Line]) -> list[Line]:
    """Returns lines with the columns of a table, which some files have one after another, in rows.

    Such a column has `MIN_COLUMN` short lines or more, most at the height of a line that came before.
    """
    result = list[Line]()
    starts = [n for n, (above, line) in enumerate(pairwise(lines), 1) if line.base > above.base + line.size]
    for start, end in pairwise([0, *starts, len(lines)]):
        column, rows = lines[start:end], dict[Line, Line]()
        are_cells = (
            result and len(column) >= MIN_COLUMN and mean(len(line.text) for line in column) <= MAX_CELL
        )
        for line in column if are_cells and not any(line.cells for line in (*column, *result)) else ():
            row = min(result, key=lambda row: abs(row.base - line.base))
            if abs(row.base - line.base) < 0.5 * line.size:
                rows[row] = line
        if len(rows) < 0.8 * len(column):
            result += column
            continue
        for place, row in enumerate(result):
            if row in rows:
                parts = sorted((*row.parts, *rows[row].parts), key=lambda part: part.left)
                result[place] = replace(row, parts=tuple(parts))
        result += [line for line in column if line not in rows.values()]
    return result


def _without_heads(document: Any, pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Returns the lines without running heads and feet.

    They stand at one place at the edge of most pages, with the same words, or with the number of the page
    alone at one of their ends beside words that occur again. Those that change with the chapter stand apart
    and are no larger than the running text; one of their parts, without the number of the page, is also at
    that place on one of the two pages before or after, and no other part has a number like that of an
    invoice. A page that has nothing else keeps them, unless it has a picture.
    """
    import pypdfium2.raw as raw

    body = Counter(line.size for line in chain(*pages) for _ in line.text).most_common(1)[0][0]
    times = Counter(_words(part.text) for line in chain(*pages) for part in line.parts)
    same = list[dict[Line, tuple[int, str]]]()
    parts = list[dict[Line, set[tuple[int, str]]]]()
    for number, page in enumerate(pages, 1):
        label = f"{number}|{re.escape(document.get_page_label(number - 1) or str(number))}"
        alone = re.compile(_PAGE_NUMBER.format(label), re.IGNORECASE)
        at_an_end = re.compile(rf"^(?:{label})\b\W*|\W*\b(?:{label})$")
        parts.append(
            {
                line: {(round(line.base / 6), at_an_end.sub("", part.text)) for part in line.parts}
                for line in page
            }
        )
        numbered = {
            line
            for line in page
            if not line.cells
            and any(alone.fullmatch(line.parts[end].text) for end in (0, -1))
            and all(alone.fullmatch(part.text) or times[_words(part.text)] > 1 for part in line.parts)
        }
        same.append({line: (round(line.base / 6), "#" if line in numbered else line.text) for line in page})
    seen = Counter(key for page in same for key in {*page.values()})
    result = list[list[Line]]()
    for number, page in enumerate(pages):
        near = [*parts[max(0, number - 2) : number], *parts[number + 1 : number + 3]]
        seen_near = {key for lines in near for keys in lines.values() for key in keys}
        heads = {
            line
            for line, key in same[number].items()
            if 2 * seen[key] > len(pages) and seen[key] > 1 + (key[1] != "#")
        }
        order = sorted(page, key=lambda line: -line.base)
        for line, inner in (order[:2], order[:-3:-1]) if len(order) > 2 else ():
            again = {part for _, part in parts[number][line] & seen_near}
            changed = {part for _, part in parts[number][line] - seen_near}
            is_apart = abs(line.base - inner.base) > 1.9 * line.size and line.size <= body and not line.cells
            if is_apart and any(map(_LETTER.search, again)) and not any(map(_OWN_NUMBER.search, changed)):
                heads.add(line)
        edges = (takewhile(heads.__contains__, edge) for edge in (order[:3], order[:-4:-1]))
        left_out = {*chain(*edges)}
        text = [line for line in page if line not in left_out]
        has_words = any(_LETTER.search(line.text) for line in text)
        pictures = () if has_words else document[number].get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])
        result.append(text if has_words or any(pictures) else page)
    return result


def _references(lines: Sequence[Line], pages: int) -> set[Line]:
    """Returns the lines that refer to pages, as in a table of contents or an index, if most lines do."""
    references = {line: int(match.group(1)) for line in lines if (match := _REFERENCE.search(line.text))}
    rows = (line for line in lines if references and len(line.parts) > 1)
    references |= {row: int(row.parts[-1].text) for row in rows if row.parts[-1].text.isdecimal()}
    are_most = 2 * sum(number <= pages for number in references.values()) > len(lines)
    return {*references} if are_most and len(lines) >= MIN_OF_A_STYLE else set()


def _levels(
    pages: list[list[Line]], outline: Mapping[int, Mapping[str, int]]
) -> dict[tuple[float, bool], int]:
    """Returns the level of headings by size and boldness.

    With an outline these are the styles whose lines are mostly in it. Bold lines that do not begin at the
    margin are not bold any more.
    """
    lefts = Counter(round(line.left) for line in chain(*pages) if not line.is_bold for _ in line.text)
    margin = min((left for left, letters in lefts.items() if letters >= 0.1 * lefts.total()), default=0)
    for page in pages:
        page[:] = [replace(line, is_bold=line.is_bold and line.left <= margin + 1) for line in page]
    letters = Counter((line.size, line.is_bold) for line in chain(*pages) for _ in line.text)
    lines = Counter(
        (line.size, line.is_bold) for line in chain(*pages) if not _NO_HEADING.fullmatch(line.text)
    )
    (body, bold), _ = letters.most_common(1)[0]
    styles = [style for style in letters if style[0] >= MIN_HEADING_RATIO * body]
    if any(outline.values()):
        entries = Counter(
            ((line.size, line.is_bold), outline[number].get(_words(line.text), 0))
            for number, page in enumerate(pages)
            for line in page
        )
        common = {style: (level, times) for (style, level), times in reversed(entries.most_common())}
        return {
            style: level
            for style, (level, times) in common.items()
            if style in styles and level and times >= MIN_OF_A_STYLE
        }
    if not bold and sum(lines[style] for style in styles) < MIN_OF_A_STYLE:
        styles += [
            (size, is_bold)
            for size, is_bold in letters
            if is_bold
            and 0.95 * body <= size < MIN_HEADING_RATIO * body
            and lines[size, is_bold] <= MAX_BOLD_SHARE * sum(map(len, pages))
        ]
    return {style: min(level, 4) for level, style in enumerate(sorted(styles, reverse=True), 1)}


def _blocks(
    lines: list[Line], entries: dict[str, int], levels: Mapping[tuple[float, bool], int]
) -> Iterator[tuple[int, str]]:
    """Yields the Markdown of the headings of a page with their level, of its paragraphs and tables with 0."""
    leads = [above.base - line.base for above, line in pairwise(lines)]
    usual_lead, page = median([lead for lead in leads if lead > 0] or [0.0]), [*lines]
    while lines:
        count, columns, cells = _aligned(lines)
        if count and min(mean(len(line.text) for line in column) for column in columns.values()) > MAX_CELL:
            running = [*chain(*(columns[column] for column in sorted(columns)))]
            page = [*(line for line in page if line not in lines[:count]), *running]
            lines[:count], count = running, 0
        if count or lines[0].cells:
            yield 0, as_markdown(lines[0].cells or cells)
            lines = lines[count or 1 :]
            continue
        level, end = _heading(lines, entries, levels)
        while (
            not level
            and end < len(lines)
            and not lines[end].cells
            and not _begins(lines[end - 1], lines[end], usual_lead, page)
            and not _heading(lines[end:], dict(entries), levels)[0]
            and not _aligned(lines[end:])[0]
        ):
            end += 1
        text = _joined(lines[:end])
        marked = f"{'#' * min(level, 6)} {' '.join(text.split())}"
        yield level, marked if level else "\n".join(map(escaped, text.split("\n")))
        lines = lines[end:]


def _aligned(
    lines: Sequence[Line],
) -> tuple[int, dict[int, list[Line]], dict[tuple[float, float], list[str]]]:
    """Returns the number of lines, from the first, whose parts stand in columns, 0 for fewer than three.

    Also returns the lines of each column, and the lines of text of the cells by row and column. A line
    without a first cell, and with few others, continues the row above.
    """
    gutters, count, rows = [(-inf, inf)], 0, 0
    for number, line in enumerate(lines):
        ends = [-inf, *sorted(end for part in line.parts for end in (part.left, part.right)), inf]
        gaps = [*zip(ends[::2], ends[1::2], strict=True)][not number : None if number else -1]
        crossed = [(max(left, start), min(right, end)) for left, right in gutters for start, end in gaps]
        free = [(left, right) for left, right in crossed if right - left >= MIN_GUTTER * line.size]
        lead = (lines[number - 1].base - line.base) / line.size if number else 0.0
        is_apart = lead < 0 or lead > (1.7 if ends[1] > gutters[0][1] else 4)
        if line.cells or is_apart or not free or (number > 1 and len(free) < len(gutters)):
            break
        gutters = free
        if ends[-2] > gutters[0][0]:
            count, rows = number + 1, rows + (len(line.parts) > 1)
    columns, cells = defaultdict[int, list[Line]](list), defaultdict[tuple[float, float], list[str]](list)
    row, middles = 0, [(left + right) / 2 for left, right in gutters]
    for line in lines[:count] if rows >= 3 else ():
        places = [bisect(middles, part.left) for part in line.parts]
        row += 0 in places or len(places) > max(1, len(gutters) - 1)
        for column, part in zip(places, line.parts, strict=True):
            columns[column].append(replace(line, parts=(part,)))
            cells[row, column].append(part.text)
    is_list = len(columns) == 2 and all(
        re.fullmatch(r"\W{0,2}|\W?\w{1,3}[.)]?|\d+", line.text) for line in columns[0]
    )
    return 0 if is_list or not columns else count, columns, cells


def _heading(
    lines: Sequence[Line], entries: dict[str, int], levels: Mapping[tuple[float, bool], int]
) -> tuple[int, int]:
    """Returns the level of the heading that `lines` begin with, 0 for none, and its number of lines.

    One of the outline is removed from `entries`.
    """
    for count in range(1, min(3, len(lines)) + 1):
        if level := entries.pop(_words(_joined(lines[:count])), 0):
            return level, count
    below = takewhile(
        lambda pair: (
            len(pair[0].text) > 30
            and (pair[0].size, pair[0].is_bold) == (pair[1].size, pair[1].is_bold)
            and pair[0].size <= pair[0].base - pair[1].base <= 2 * pair[0].size
        ),
        pairwise(lines),
    )
    count = 1 + len([*below])
    text, numbers = _joined(lines[:count]), re.match(r"\d+(?:\.\d+)+\s+\w", lines[0].text)
    level = levels.get((lines[0].size, lines[0].is_bold), 0)
    if numbers and lines[0].is_bold and not level:
        level = 1 + max(levels.values(), default=numbers[0].count("."))
    is_heading = level and len(text) <= 120 and not _NO_HEADING.fullmatch(text)
    return (level, count) if is_heading else (0, 1)


def _begins(above: Line, line: Line, usual_lead: float, page: Sequence[Line]) -> bool:
    """Returns whether `line` begins a paragraph after the line `above`: also where its first word would have
    fitted there.
    """
    lead, word = above.base - line.base, line.text.partition(" ")[0]
    margin = max(near.right for near in page if abs(near.left - above.left) < 3 * above.size)
    needed = (len(word) / len(line.text)) * (line.right - line.left) + 2 * line.size
    is_deliberate = margin - above.right > needed and not line.width
    goes_on = line.text[:1].islower() and above.text[-1].isalnum()
    is_indented = abs(above.left - line.left) > 0.8 * line.size and not line.width
    return not above.text.endswith(tuple(HYPHENS)) and (
        lead > min(usual_lead, 1.8 * line.size) + 0.35 * line.size
        or (not goes_on and (lead < -line.size or is_deliberate))
        or abs(above.size - line.size) > 0.5
        or _BULLET.match(line.text) is not None
        or (above.width > 0) != (line.width > 0)
        or (is_indented and re.search(r"[.!?:;。！？…؟]\W*$", above.text) is not None)
    )


def _joined(lines: Sequence[Line]) -> str:
    """Returns lines as one; words that were broken at the end of a line are joined, lines of code are not."""
    if all(line.width for line in lines):
        margin = min(line.left for line in lines)
        return "\n".join(" " * round((line.left - margin) / line.width) + line.text for line in lines)
    texts = (line.text for line in lines)
    text = reduce(
        lambda text, line: text + line if _GOES_ON.search(text[-300:]) else continued(text, line), texts
    )
    return re.sub(rf"(\w*)[{HYPHENS}]\s*([\w-]*)", _unbroken, re.sub(r"\xad\s*", "", text))


def _unbroken(match: re.Match[str]) -> str:
    """Returns a word that was broken at the end of a line; names, numbers and chains keep their hyphen."""
    begin, end = match.groups()
    is_word = end[:1].islower() or (len(begin) > 2 and begin.isupper())
    return f"{begin}{end}" if is_word and "-" not in end else f"{begin}-{end}"
