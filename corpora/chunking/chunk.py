"""The ways to cut passages into chunks, by name.

text        at paragraphs, lines, sentences, words
markdown    before headings, between blocks, items and rows (`markdown`)
sections    as markdown, and the title of every chunk names its section
columns     as markdown, and the title of a chunk that begins inside a table names the columns
both        as sections and columns
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cache
from importlib.metadata import version as version_of
from itertools import pairwise
from typing import Any

from ragc.corpora.chunking import tokens
from ragc.errors import UnknownName, UsageError
from ragc.records import Passage

VERSION, MARKDOWN_VERSION = 1, 2
"""Increased whenever the same arguments would give other chunks of text, or of Markdown only."""

METHODS = ("text", "markdown", "sections", "columns", "both")

_NAMED = {"sections": (True, False), "columns": (False, True), "both": (True, True)}
"""Whether the titles of chunks name sections and columns, by method; none of the others does."""

_SENTENCE = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’]*+")
_SPACE = re.compile(r"\s+")

MAX_NAME = 200
"""The most characters of a heading, and of the columns of a table, that a title names."""

_FRONT = re.compile(r"\A---\n[A-Za-z_][\w-]*[ \t]*:.*\n(?:.*\n){0,200}?(?:---|\.\.\.)(?:\n|\Z)")
_LINE = re.compile(r"\r\n?|\n")
_CELLS = re.compile(r"(?<!\\)\|")
_MARKUP = re.compile(r"[*`]|!?\[([^\]]*)\]\([^)]*\)")
_BLOCKS = frozenset(
    (
        *(
            "paragraph_open",
            "bullet_list_open",
            "ordered_list_open",
            "list_item_open",
            "table_open",
            "tr_open",
        ),
        *("heading_open", "fence", "code_block", "html_block", "hr"),
    )
)


def chunk_passage(passage: Passage, size: int, overlap: float = 0.0, by: str = "text") -> tuple[Passage, ...]:
    """Cuts `passage` into chunks of at most `size` tokens, in reading order; one that fits stays.

    Chunk n has the id `parent#n`, the title of the passage, and a `start` with
    `passage.text[start : start + len(text)] == text`; `start` grows from chunk to chunk. Only white space
    lies between chunks and around them. Markdown is cut before the last heading of the highest level that
    leaves a chunk a quarter full, else before a block, item or row that leaves it half full, else before a
    block that fits into the next chunk. All else is cut after the last paragraph, else line, else sentence
    that leaves a chunk half full; else after a whole word; else after a whole character. A single character
    of more than `size` tokens (four at most) is a chunk of its own.

    The next chunk repeats at most `overlap * size` tokens of the previous one: from a heading or a block if
    one begins there, else from the start of a word.

    Raises UnknownName unless `by` is one of `METHODS`, UsageError unless `size >= 1` and `0 <= overlap < 1`.
    """
    check(by)
    check_size(size, overlap)
    # No token is shorter than a byte, so few texts are counted.
    if len(passage.text.encode("utf-8", "surrogatepass")) <= size or tokens.count(passage.text) <= size:
        return (passage,)
    markdown = Markdown("" if by == "text" else passage.text, size)
    return tuple(
        replace(
            passage,
            id=f"{passage.id}#{n}",
            title=markdown.title(passage.title, start, *_NAMED.get(by, (False, False))),
            text=passage.text[start:end],
            start=start,
        )
        for n, (start, end) in enumerate(Cutter(passage.text, size, int(overlap * size), markdown).spans)
    )


def titled(by: str, *, sections: bool | None = None, columns: bool | None = None) -> str:
    """Returns the method `by` with other titles of chunks; None leaves what it does. Of `text` it makes
    `markdown` or one with titles.
    """
    before = _NAMED.get(by, (False, False))
    named = (before[0] if sections is None else sections, before[1] if columns is None else columns)
    return (
        by
        if named == before
        else next((name for name, names in _NAMED.items() if names == named), "markdown")
    )


def settings(size: int | None, overlap: float, by: str = "text") -> list[str | int | float]:
    """Returns the chunk settings for fingerprints; empty if passages are not cut (`size` None).

    Raises UnknownName and UsageError as `chunk_passage` does.
    """
    check(by)
    if size is None:
        return []
    check_size(size, overlap)
    return [size, float(overlap), *version(by)]


def check(by: str) -> None:
    """Raises UnknownName unless `by` is one of `METHODS`."""
    if by not in METHODS:
        raise UnknownName("way to cut passages", by, METHODS)


def check_size(size: int, overlap: float) -> None:
    """Raises UsageError unless `size >= 1` and `0 <= overlap < 1`."""
    if size < 1:
        raise UsageError(f"A chunk needs a size of at least 1 token, got {size}.")
    if not 0 <= overlap < 1:
        raise UsageError(
            f"The overlap is the share of a chunk that the next one repeats: 0 <= overlap < 1, got {overlap}."
        )


def version(by: str = "text") -> list[str | int]:
    """Returns what the chunks of a method depend on; JSON values for a fingerprint.

    For `text` it is `[VERSION]`, else also the method and the version of the parser. Raises UnknownName as
    `chunk_passage` does.
    """
    check(by)
    return [VERSION] if by == "text" else [by, VERSION, MARKDOWN_VERSION, version_of("markdown-it-py")]


class Cutter:
    """Cuts one text into `spans`, the first and last-plus-one character of every chunk.

    The boundaries of `markdown` are preferred to those of plain text. A chunk at best repeats text from one
    of its blocks on, and nothing before a heading.
    """

    def __init__(self, text: str, size: int, repeated: int, markdown: Markdown) -> None:
        self.text, self.size, self.repeated, self.markdown = text, size, repeated, markdown
        self.length, self.starts = len(text.rstrip()), tokens.starts(text)
        gaps = [(match.start(), match.end(), match.group().count("\n")) for match in _SPACE.finditer(text)]
        self.words = [0, *(end for _, end, _ in gaps)]
        before = {end: start for start, end, _ in gaps}  # the end of the text before a start
        self.blocks = [before.get(start, start) for start in markdown.blocks]
        self.tiers = [
            *((share, [before.get(start, start) for start in starts]) for share, starts in markdown.tiers),
            (0.5, [start for start, _, lines in gaps if lines > 1]),
            (0.5, [start for start, _, lines in gaps if lines]),
            (0.5, [match.end() for match in _SENTENCE.finditer(text)]),
            (0.0, [start for start, _, _ in gaps]),
        ]
        self.spans = list[tuple[int, int]]()
        start, done = skip_blanks(text, 0), 0
        while done < self.length:
            if end := self._end(start, done):
                self.spans.append((start, end))
                start, done = self._next(start, end), end
            else:  # the repeated text leaves no space for new text
                start = skip_blanks(text, done)
        self.spans = self.spans or [(0, 0)]

    def _end(self, start: int, done: int) -> int:
        """Returns the end of the chunk from `start`, after `done`; 0 if nothing after `done` fits."""
        first = bisect_right(self.starts, start) - 1
        budget = self.size
        while budget > 0:
            limit = self.starts[first + budget] if first + budget < len(self.starts) else self.length
            end = self._boundary(start, done, min(limit, self.length))
            if end <= max(start, done) or self.text[done:end].isspace():
                break
            if tokens.count(self.text[start:end]) <= self.size:
                return end
            # Cut out of its text, a chunk can have more tokens than it had there.
            budget = min(budget, bisect_left(self.starts, end) - first) - 1
        return start + 1 if start >= done else 0

    def _boundary(self, start: int, done: int, limit: int) -> int:
        """Returns the best end after `start` and `done`, at most `limit`; `limit` if there is no boundary."""
        if limit == self.length:
            return limit
        for number, (share, ends) in enumerate(self.tiers):
            if number == len(self.markdown.tiers):  # blocks come first, if what follows fits
                place = bisect_right(self.blocks, limit)
                end, after = [0, *self.blocks, self.length][place : place + 2]
                if bisect_left(self.starts, after) - bisect_left(self.starts, end) <= self.size:
                    if end > max(start, done):
                        return end
                    if start < done == end:  # the repeated text pushes out a block that fits alone
                        return 0
            place = bisect_right(ends, limit)
            if place and ends[place - 1] > max(start, done, start + int((limit - start) * share)):
                return ends[place - 1]
        return limit

    def _next(self, start: int, end: int) -> int:
        """Returns the start of the chunk after (start, end): before `end` if text is repeated."""
        new, first = skip_blanks(self.text, end), max(0, bisect_left(self.starts, end) - self.repeated)
        low = max(start + 1, self.starts[first]) if self.repeated else end
        low = max([low, *self.markdown.headings[: bisect_right(self.markdown.headings, new)][-1:]])
        for places in (self.markdown.blocks, self.words, self.starts):
            for position in places[bisect_left(places, low) : bisect_left(places, end)]:
                if tokens.count(self.text[position:end]) <= self.repeated and not any(
                    first < position < last for first, last, _ in self.markdown.solid
                ):
                    return position
        return new


class Markdown:
    """The structure of one text that is cut into chunks of `size` tokens.

    `tiers` are where it may be cut, by preference, each with the least share of a chunk that has to be
    filled: before headings, by level, and before `blocks`, list items and rows, the outer ones first. Nothing
    is cut right after a heading, nor inside a table that fits into a chunk. `headings` and `blocks` are
    starts; `solid` are tables and code, with their ends and the names of their columns.

    The parser is markdown-it-py, CommonMark with tables. Inline markup, references and quotes are not parsed,
    so that the time grows with the length of any text: lines of a quote are a paragraph.
    """

    def __init__(self, text: str, size: int) -> None:
        self.headings, self.solid = list[int](), list[tuple[int, int, str]]()
        self._paths, section = [tuple[str, ...]()], dict[int, str]()  # by the number of headings before
        ranks, joined, inside = dict[int, int](), set[int](), range(0)
        lines = [0, *(match.end() for match in _LINE.finditer(text)), *[len(text)] * 2]
        # YAML between lines of dashes is no Markdown.
        without_front = _FRONT.sub(lambda front: "\n" * front.group().count("\n"), text)
        for token, after in pairwise(_parser().parse(without_front) if text else ()):
            if token.type not in _BLOCKS or token.map is None:
                continue
            start, following = (skip_blanks(text, lines[line]) for line in token.map)
            level = int(token.tag[1]) if token.type == "heading_open" and not token.level else 0
            if level:
                words = " ".join(_MARKUP.sub(r"\1", after.content[:MAX_NAME]).split())
                section = {above: section[above] for above in section if above < level} | {level: words}
                self.headings.append(start)
                self._paths.append(tuple(filter(None, section.values())))
                joined.add(following)
            elif token.type == "table_open":
                header = _CELLS.split(text[start : lines[token.map[0] + 1]].strip().strip("|"))
                names = filter(None, (" ".join(cell.replace("\\|", "|").split()) for cell in header))
                self.solid.append((start, following, ", ".join(names)[:MAX_NAME]))
                inside = range(start + 1, following if tokens.count(text[start:following]) <= size else 0)
            elif token.type in ("fence", "code_block"):
                self.solid.append((start, following, ""))
            if start not in joined and start not in inside:
                ranks.setdefault(start, level or 7 + token.level)
        self.blocks = sorted(ranks)
        self.tiers = [
            (0.25 if rank < 7 else 0.5, [start for start in self.blocks if ranks[start] == rank])
            for rank in sorted({*ranks.values()})
        ]

    def title(self, title: str, start: int, sections: bool, columns: bool) -> str:
        """Returns the title of a chunk that begins at `start`.

        With `sections` it names the headings above, as in `Title: Installation > Linux`, without a first one
        that only repeats the title. With `columns` that of a chunk that begins inside a table names the
        columns, as in `Title (columns: item, price)`, since the row with their names is in another chunk.
        """
        path = self._paths[bisect_right(self.headings, start)] if sections else ()
        path = path[1:] if path[:1] and path[0].casefold() == title.strip().casefold() else path
        named = ": ".join(filter(None, (title, " > ".join(path))))
        names = next((names for begin, end, names in self.solid if columns and begin < start < end), "")
        return f"{named} (columns: {names})" if names else named


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Lists within each other are parsed to a depth of 30.
    parser = MarkdownIt("commonmark", {"maxNesting": 60}).enable("table")
    parser.disable(["inline", "reference", "blockquote"])
    parser.parse("ready")  # compiles its rules, which is not safe in two threads at once
    return parser


def skip_blanks(text: str, place: int) -> int:
    """Returns the first character from `place` on that is not white space."""
    match = _SPACE.match(text, place)
    return match.end() if match else place
