"""The ways to cut passages into chunks, by name.

text        at paragraphs, lines, sentences, words
markdown    before headings, between blocks, items and rows (`markdown`)
sections    as markdown, and the title of every chunk names its section
columns     as markdown, and the title of a chunk that begins inside a table names the columns
both        as sections and columns

Sizes are counted in tokens of `cl100k_base`, a fixed unit and not the tokenizer of the answering model, so a
size means the same for every target. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cache
from importlib.metadata import distribution, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from ragc.errors import UnknownName, UsageError
from ragc.records import Passage

VERSION, MARKDOWN_VERSION = 1, 2
"""Increased whenever the same arguments would give other chunks of text, or of Markdown only."""

METHODS = {
    "text": (False, False),
    "markdown": (False, False),
    "sections": (True, False),
    "columns": (False, True),
    "both": (True, True),
}
"""The methods, and whether the titles of chunks name sections and columns."""

_SENTENCE = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’]*+")
_SPACE = re.compile(r"\s+")

# The encoding, a copy in the distribution of litellm, which is not imported, and its pattern of words.
_FILE = "litellm/litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
_BLANKS = re.compile(r"(\s{1000})")
"""Longer runs of white space overflow the stack of the tokenizer."""

MAX_NAME = 200
"""The most characters of a heading, and of the columns of a table, that a title names."""

_FRONT = re.compile(r"\A---\n[A-Za-z_][\w-]*[ \t]*:.*\n(?:.*\n){0,200}?(?:---|\.\.\.)(?:\n|\Z)")
_LINE = re.compile(r"\r\n?|\n")
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
    _check(size, overlap, by)
    # No token is shorter than a byte, so few texts are counted.
    if len(passage.text.encode()) <= size or count(passage.text) <= size:
        return (passage,)
    markdown = Markdown("" if by == "text" else passage.text, size)
    return tuple(
        replace(
            passage,
            id=f"{passage.id}#{n}",
            title=markdown.title(passage.title, start, *METHODS[by]),
            text=passage.text[start:end],
            start=start,
        )
        for n, (start, end) in enumerate(
            Cutter(passage.text, size, int(overlap * size), markdown).spans or [(0, 0)]
        )
    )


def titled(by: str, *, sections: bool | None = None, columns: bool | None = None) -> str:
    """Returns the method `by` with other titles of chunks; None leaves what it does. Of `text` it makes
    `markdown` or one with titles.
    """
    before = METHODS[by]
    named = (before[0] if sections is None else sections, before[1] if columns is None else columns)
    return by if named == before else next(name for name in reversed(METHODS) if METHODS[name] == named)


def settings(size: int | None, overlap: float, by: str = "text") -> list[str | int | float]:
    """Returns the chunk settings for fingerprints, what the chunks depend on; empty if passages are not cut
    (`size` None).

    Raises UnknownName and UsageError as `chunk_passage` does.
    """
    _check(size, overlap, by)
    if size is None:
        return []
    markdown = [by, VERSION, MARKDOWN_VERSION, version("markdown-it-py")]
    return [size, float(overlap), *([VERSION] if by == "text" else markdown)]


def _check(size: int | None, overlap: float, by: str) -> None:
    if by not in METHODS:
        raise UnknownName("way to cut passages", by, METHODS)
    if size is not None and size < 1:
        raise UsageError(f"A chunk needs a size of at least 1 token, got {size}.")
    if size is not None and not 0 <= overlap < 1:
        raise UsageError(
            f"The overlap is the share of a chunk that the next one repeats: 0 <= overlap < 1, got {overlap}."
        )


class Cutter:
    """Cuts one text into `spans`, the first and last-plus-one character of every chunk, none of a blank text.

    The boundaries of `markdown` are preferred to those of plain text. A chunk at best repeats text from one
    of its blocks on, and nothing before a heading.
    """

    def __init__(self, text: str, size: int, repeated: int, markdown: Markdown) -> None:
        self.text, self.size, self.repeated, self.markdown = text, size, repeated, markdown
        self.length, self.starts = len(text.rstrip()), token_starts(text)
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

    def _end(self, start: int, done: int) -> int:
        """Returns the end of the chunk from `start`, after `done`; 0 if nothing after `done` fits."""
        first = bisect_right(self.starts, start) - 1
        budget = self.size
        while budget > 0:
            limit = self.starts[first + budget] if first + budget < len(self.starts) else self.length
            end = self._boundary(start, done, min(limit, self.length))
            if end <= max(start, done) or self.text[done:end].isspace():
                break
            if count(self.text[start:end]) <= self.size:
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
                if count(self.text[position:end]) <= self.repeated and not any(
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
                header = re.split(r"(?<!\\)\|", text[start : lines[token.map[0] + 1]].strip().strip("|"))
                names = filter(None, (" ".join(cell.replace("\\|", "|").split()) for cell in header))
                self.solid.append((start, following, ", ".join(names)[:MAX_NAME]))
                inside = range(start + 1, following if count(text[start:following]) <= size else 0)
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
    parser = MarkdownIt("commonmark", {"maxNesting": 60})
    parser.enable("table").disable(["inline", "reference", "blockquote"])
    parser.parse("ready")  # compiles its rules, which is not safe in two threads at once
    return parser


def skip_blanks(text: str, place: int) -> int:
    """Returns the first character from `place` on that is not white space."""
    match = _SPACE.match(text, place)
    return match.end() if match else place


def count(text: str) -> int:
    """Returns the number of tokens of `text`; markers such as `<|endoftext|>` count as plain text."""
    return len(_encode(text))


def token_starts(text: str) -> list[int]:
    """Returns the character offset at which each token of `text` begins, in order, not decreasing.

    A token that begins inside a character has the offset of that character.
    """
    return list(encoding().decode_with_offsets(_encode(text))[1])


def _encode(text: str) -> list[int]:
    return [token for part in _BLANKS.split(text) for token in encoding().encode_ordinary(part)]


@cache
def encoding() -> Any:
    """Returns the encoding, loaded by the first call.

    Raises UsageError if the installed litellm does not have its unchanged file.
    """
    import tiktoken

    file = Path(str(distribution("litellm").locate_file(_FILE)))
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise UsageError(
            "Chunk sizes are counted with cl100k_base, which the litellm distribution carries, but there is "
            f"no unchanged {_FILE} in it. Reinstall litellm; nothing is downloaded for this."
        )
    ranks = {b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
    return tiktoken.Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
