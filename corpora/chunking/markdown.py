"""Cuts markdown into chunks where its structure allows: at headings, blocks, list items, table rows."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from ragc.corpora.chunking import tokens
from ragc.corpora.chunking.markdown_blocks import MAX_HEADING_CHARS, Block, Outline, blocks
from ragc.corpora.chunking.text import Cutter, last_between
from ragc.records import Passage

VERSION = 1
"""Increased whenever the same arguments would give other chunks."""

_CELLS = re.compile(r"(?<!\\)\|")
_CODE = frozenset({"fence", "code"})
_WHOLE = _CODE | {"table"}
_HOLDERS = frozenset({"list", "item", "table"})
_BLOCK = 8  # the rank of a block of depth 0; two more for every level of depth
_LAST = 1_000


def chunk_markdown(
    passage: Passage, size: int, overlap: float = 0.0, *, headed: bool = False, columns: bool = False
) -> tuple[Passage, ...]:
    """Cuts `passage`, markdown of more than `size` tokens, into chunks of at most `size`, in reading order.

    Ids, titles, offsets and sizes are as in `text.chunk`; only white space is lost. A chunk ends at the first
    possible one of these:

    1. before the last heading of the highest level that leaves it at least a quarter full;
    2. after the last block, else list item, else row or line of code, that leaves it at least half full;
    3. inside a block that is alone longer than `size`, where `text.chunk` would cut it;
    4. after the last block, item, row or line at all;
    5. where `text.chunk` would end it.

    Rows and lines of a table or code block that fits into a chunk count only in 5, first. A heading stays
    with the text after it: no chunk ends right after a heading if more would fit.

    The next chunk repeats at most `overlap * size` tokens of the previous one: from its last heading if there
    is one, else from the start of a block or of a word, and nothing before a heading.

    With `headed`, the title of a chunk of a longer passage also names its section, as in
    `Title: Installation > Linux`. With `columns`, that of a chunk that begins inside a table names the
    table's columns, as in `Title (columns: item, price)`, since the row with their names is in another chunk.
    """
    text = passage.text
    text_blocks = blocks(text)
    outline = Outline(text, text_blocks)
    tables = [block for block in text_blocks if block.kind == "table"] if columns else []

    def title(start: int) -> str:
        named = _section_title(passage.title, outline.path(start)) if headed else passage.title
        return named + _columns_at(text, tables, start)

    return tuple(
        replace(
            passage,
            id=f"{passage.id}#{n}",
            title=title(start),
            text=text[start:end],
            start=start,
        )
        for n, (start, end) in enumerate(
            _MarkdownCutter(text, size, int(overlap * size), text_blocks).spans()
        )
    )


def _section_title(title: str, path: tuple[str, ...]) -> str:
    """Returns `title: path`, without a first heading that only repeats the title."""
    if path and path[0].casefold() == title.strip().casefold():
        path = path[1:]
    return ": ".join(part for part in (title, " > ".join(path)) if part)


def _columns_at(text: str, tables: list[Block], start: int) -> str:
    """Returns the names of the columns of the table that begins before `start` and goes on there, in
    brackets; "" outside of tables.
    """
    table = next((block for block in tables if block.start < start < block.end), None)
    if table is None:
        return ""
    header = text[table.start : table.end].split("\n", 1)[0].strip().strip("|")
    names = (" ".join(cell.replace("\\|", "|").split()) for cell in _CELLS.split(header))
    listed = ", ".join(name for name in names if name)[:MAX_HEADING_CHARS]
    return f" (columns: {listed})" if listed else ""


class _MarkdownCutter(Cutter):
    """A cutter that prefers boundaries between markdown blocks to those of its base class."""

    def __init__(self, text: str, size: int, repeated: int, text_blocks: tuple[Block, ...]) -> None:
        super().__init__(text, size, repeated)
        self.heads = [block.start for block in text_blocks if block.level and not block.depth]
        self.whole = [block for block in text_blocks if block.kind in _WHOLE and self._fits(block)]
        self.whole_starts = [block.start for block in self.whole]
        self.leaves = [leaf for block in text_blocks for leaf in _leaves(text, block)]
        self.leaf_starts = [leaf.start for leaf in self.leaves]
        ranks: dict[int, int] = {}  # by block start; 1 to 6 for a section, then by depth
        for block in (*text_blocks, *(leaf for leaf in self.leaves if leaf.kind == "line")):
            ranks[block.start] = min(self._rank(block), ranks.get(block.start, _LAST))
        glued = {block.end for block in text_blocks if block.level}
        ends = {start: self._before(start) for start in sorted(ranks) if start}
        inner_starts = {start for start in ranks if self._inside_whole_block(start)}
        by_rank: defaultdict[int, list[int]] = defaultdict(list)
        for start, end in ends.items():
            if end not in glued and start not in inner_starts:
                by_rank[ranks[start]].append(end)
        self.places = [start for start in sorted(ranks) if start not in inner_starts]
        self.tiers = [(4 if rank < _BLOCK else 2, by_rank[rank]) for rank in sorted(by_rank)]
        self.all_ends = sorted(end for _, tier in self.tiers for end in tier)
        self.kept_ends = [end for start, end in ends.items() if start in inner_starts and end not in glued]

    def _rank(self, block: Block) -> int:
        """Returns the rank of a cut before `block`; 1 is the best."""
        if block.level and not block.depth:
            return block.level
        blank = self.text.count("\n", self._before(block.start), block.start) > 1
        return _BLOCK + 2 * block.depth - (block.kind == "line" and blank)

    def _inside_whole_block(self, position: int) -> bool:
        """Returns whether `position` is inside a table or code block that fits into a chunk."""
        at = bisect_left(self.whole_starts, position) - 1
        return at >= 0 and position < self.whole[at].end

    def _fits(self, block: Block) -> bool:
        """Returns whether a block has at most `size` tokens, counted in its context."""
        return bisect_left(self.starts, block.end) - bisect_right(self.starts, block.start) < self.size

    def _before(self, start: int) -> int:
        """Returns the end of the text before `start`, the first character after white space."""
        at = bisect_left(self.spaces, start) - 1
        return self.spaces[at] if at >= 0 else 0

    def _boundary(self, start: int, done: int, limit: int) -> int:
        """Returns the base's boundary; 0 if the repeated text pushes out a block that would fit alone."""
        if limit == self.length:
            return limit
        for part, ends in self.tiers:
            if end := last_between(ends, max(done, start + (limit - start) // part), limit):
                return end
        leaf = self._leaf(limit)
        low = max(start, done)
        if leaf is None or self._fits(leaf):
            if end := last_between(self.all_ends, low, limit):
                return end
            if start < done:
                return 0
            if end := last_between(self.kept_ends, low, limit):
                return end
        return super()._boundary(start, max(done, leaf.start if leaf else 0), limit)

    def _leaf(self, limit: int) -> Block | None:
        """Returns the innermost block, row or line that a cut at `limit` would split."""
        at = bisect_left(self.leaf_starts, limit) - 1
        return self.leaves[at] if at >= 0 and limit < self.leaves[at].end else None

    def _next(self, start: int, end: int) -> int:
        """Returns the base's next start, or the heading or block that begins in the repeatable text."""
        position, new = super()._next(start, end), self._skip(end)
        if position >= new:
            return new
        if head := last_between(self.heads, position - 1, new):
            better = head
        else:
            at = bisect_left(self.places, position)
            better = min(self.places[at], new) if at < len(self.places) else new
            if better > position + (new - position) // 2 and not self._inside_whole_block(position):
                return position
        return better if better == new or tokens.count(self.text[better:end]) <= self.repeated else new


def _leaves(text: str, block: Block) -> Iterator[Block]:
    """Yields the innermost pieces of `block`: itself, or the lines of code; none for blocks that hold others.

    Blank lines of code are no pieces, and a fence's marks belong to the adjacent lines.
    """
    if block.kind not in _CODE:
        if block.kind not in _HOLDERS:
            yield block
        return
    spans: list[tuple[int, int]] = []
    at = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        if line.strip():
            spans.append((at + len(line) - len(line.lstrip()), at + len(line.rstrip())))
        at += len(line)
    if block.kind == "fence":
        if len(spans) > 1:
            spans[:2] = [(spans[0][0], spans[1][1])]
        if len(spans) > 1 and text.startswith(("```", "~~~"), spans[-1][0]):
            spans[-2:] = [(spans[-2][0], spans[-1][1])]
    for start, end in spans:
        yield Block("line", start, end, block.depth + 1)
