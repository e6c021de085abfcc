"""The blocks of a markdown text and their positions: headings, paragraphs, lists, tables, code, quotes.

The parser is markdown-it-py, CommonMark with tables. Four of its rules are changed, so that the time grows
with the length of any text, and every line belongs to a block:

    front matter     YAML between `---` lines at the very start is one block
    tables           one block a row; cells are not parsed
    quotes           one block; the content of a quote is not parsed
    references       link definitions are paragraphs
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

MAX_HEADING_CHARS = 200
"""The most characters of a heading's markdown that `Outline` reads."""

DEEPEST = 30
"""The greatest depth of nested lists that is parsed."""

_LINE = re.compile(r"\r\n?|\n")
_KEY = re.compile(r"[A-Za-z_][\w-]*[ \t]*:")
_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "table_open": "table",
    "row": "row",
    "fence": "fence",
    "code_block": "code",
    "quote": "quote",
    "html_block": "html",
    "hr": "rule",
    "front": "front",
}
_SEEN = ("text", "code_inline", "text_special", "image")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a text: `text[start:end]`, whole lines without the white space around them.

    `kind` is heading, paragraph, list, item, table, row, fence, code (indented), quote, html, rule (a line
    across) or front (front matter). `depth` counts the blocks around it, and `level` is 1 to 6 for a
    heading, else 0. The first row of a table is its header with the line of dashes.
    """

    kind: str
    start: int
    end: int
    depth: int = 0
    level: int = 0


def blocks(text: str) -> tuple[Block, ...]:
    """Returns the blocks of any text in reading order, each before those inside it; none is empty.

    All text except white space is in blocks of depth 0, which do not overlap. A block that begins on the line
    of its list item starts where the item does, at the marker. Lists nested deeper than `DEEPEST`, and what
    follows those, are not separated from the item around them.
    """
    lines = _lines(text)
    result: list[Block] = []
    for token in _parser().parse(text):
        kind = _KINDS.get(token.type)
        if kind is None or token.map is None:
            continue
        first, last = token.map[0], min(token.map[1], len(lines)) - 1
        while first <= last and lines[first][0] == lines[first][1]:
            first += 1
        while last >= first and lines[last][0] == lines[last][1]:
            last -= 1
        if first <= last:
            level = int(token.tag[1:]) if kind == "heading" else 0
            result.append(Block(kind, lines[first][0], lines[last][1], token.level, level))
    return tuple(result)


class Outline:
    """The headings of a text, parsed once."""

    def __init__(self, text: str, text_blocks: tuple[Block, ...] | None = None) -> None:
        """Builds the outline of `text`; `text_blocks` are its blocks, if they are parsed already."""
        self.text = text
        known = blocks(text) if text_blocks is None else text_blocks
        self.headings = [block for block in known if block.level and not block.depth]
        self._starts = [heading.start for heading in self.headings]
        self._above: list[int] = []
        open_: list[int] = []
        for at, heading in enumerate(self.headings):
            while open_ and self.headings[open_[-1]].level >= heading.level:
                open_.pop()
            self._above.append(open_[-1] if open_ else -1)
            open_.append(at)

    def path(self, start: int) -> tuple[str, ...]:
        """Returns the headings, outermost first and as plain text, of the section that holds the character
        `start`.

        A heading is part of its own section. Empty before the first heading; headings without text are
        left out. Headings inside lists and quotes begin no section.
        """
        at = bisect_right(self._starts, start) - 1
        names: list[str] = []
        while at >= 0:
            heading = self.headings[at]
            names.append(_plain(self.text[heading.start : heading.end]))
            at = self._above[at]
        return tuple(name for name in reversed(names) if name)


def parser_version() -> str:
    """Returns the version of markdown-it-py, which determines the blocks."""
    from markdown_it import __version__

    return __version__


def _lines(text: str) -> list[tuple[int, int]]:
    """Returns the start and end of every line without surrounding white space; equal for a blank line."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end, after in [*((m.start(), m.end()) for m in _LINE.finditer(text)), (len(text), len(text))]:
        line = text[start:end]
        begins = start + len(line) - len(line.lstrip())
        spans.append((begins, max(begins, start + len(line.rstrip()))))
        start = after
    return spans


def _plain(heading: str) -> str:
    """Returns the words of a heading without its markup."""
    from markdown_it.token import Token

    tokens: list[Token] = _inline().parse(heading[:MAX_HEADING_CHARS])
    words = tokens[1].children if len(tokens) > 1 else None
    shown = ((t.content if t.type in _SEEN else " " if "break" in t.type else "") for t in words or ())
    return " ".join("".join(shown).split())


@cache
def _inline() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.parse("ready")  # compiles its rules, which is not safe in two threads at once
    return parser


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = (
        MarkdownIt("commonmark", {"maxNesting": 2 * DEEPEST}).enable("table").disable(["inline", "reference"])
    )
    ends = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.at("blockquote", _quote, {"alt": ends})
    parser.block.ruler.before("table", "front", _front)
    parser.parse("ready")  # compiles its rules, which is not safe in two threads at once
    return parser


def _table(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parses a table: the library's rule finds the header; lines up to the next block or blank are rows."""
    from markdown_it.rules_block import table

    if not table(state, first, last, True):
        return False
    if silent:
        return True
    after = first + 2
    while after < last and not _ends(state, after, last):
        after += 1
    state.push("table_open", "table", 1).map = [first, after]
    for line in (first, *range(first + 2, after)):
        state.push("row", "tr", 0).map = [line, line + 2 if line == first else line + 1]
    state.push("table_close", "table", -1)
    state.line = after
    return True


def _quote(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parses lines that begin with `>`, and those that continue the paragraph of one.

    The library's own rule takes time with the square of the lines when a quote ends before its lines do.
    """
    if not _is_quote(state, first):
        return False
    if silent:
        return True
    after = first + 1
    while after < last and (_is_quote(state, after) or not _ends(state, after, last)):
        after += 1
    state.push("quote", "blockquote", 0).map = [first, after]
    state.line = after
    return True


def _front(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parses YAML front matter: only on the first line, only if a key follows, only if it is closed."""
    if silent or first or state.level or last < 3 or _line(state, 0) != "---":
        return False
    if not _KEY.match(_line(state, 1)):
        return False
    for line in range(2, last):
        if _line(state, line) in ("---", "..."):
            state.push("front", "", 0).map = [0, line + 1]
            state.line = line + 1
            return True
    return False


def _is_quote(state: StateBlock, line: int) -> bool:
    if state.sCount[line] < state.blkIndent or state.is_code_block(line):
        return False
    return state.src.startswith(">", state.bMarks[line] + state.tShift[line])


def _ends(state: StateBlock, line: int, last: int) -> bool:
    """Returns whether `line` is blank, outside the list item, or begins another block."""
    if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
        return True
    rules = state.md.block.ruler.getRules("blockquote")
    return any(rule(state, line, last, True) for rule in rules)


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] : state.eMarks[line]].rstrip()
