"""The ways to cut passages into chunks, by name.

text        at paragraphs, lines, sentences, words (`text`)
markdown    before headings, between blocks, items and rows (`markdown`)
sections    as markdown, and the title of every chunk names its section
columns     as markdown, and the title of a chunk that begins inside a table names the columns
both        as sections and columns
"""

from __future__ import annotations

from ragc.corpora.chunking import text, tokens
from ragc.errors import UnknownName, UsageError
from ragc.records import Passage

METHODS = ("text", "markdown", "sections", "columns", "both")

_NAMED = {"sections": (True, False), "columns": (False, True), "both": (True, True)}
"""Whether the titles of chunks name sections and columns, by method; none of the others does."""


def chunk_passage(passage: Passage, size: int, overlap: float = 0.0, by: str = "text") -> tuple[Passage, ...]:
    """Returns `passage` in chunks of at most `size` tokens; each repeats at most `overlap * size` of the one
    before.

    A passage that fits is returned as it is. Raises UnknownName unless `by` is one of `METHODS`, UsageError
    unless `size >= 1` and `0 <= overlap < 1`.
    """
    check(by)
    check_size(size, overlap)
    if _fits(passage.text, size):
        return (passage,)
    if by == "text":
        return text.chunk(passage, size, overlap)
    from ragc.corpora.chunking import markdown

    sections, columns = _NAMED.get(by, (False, False))
    return markdown.chunk_markdown(passage, size, overlap, headed=sections, columns=columns)


def titled(by: str, *, sections: bool | None = None, columns: bool | None = None) -> str:
    """Returns the method `by` with other titles of chunks; None leaves what it does. Of `text` it makes
    `markdown` or one with titles.
    """
    before = _NAMED.get(by, (False, False))
    named = (before[0] if sections is None else sections, before[1] if columns is None else columns)
    if named == before:
        return by
    return next((name for name, names in _NAMED.items() if names == named), "markdown")


def _fits(text: str, size: int) -> bool:
    """Returns whether `text` has at most `size` tokens. No token is shorter than a byte, so few texts are
    counted.
    """
    return len(text.encode("utf-8", "surrogatepass")) <= size or tokens.count(text) <= size


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
    """Returns the versions that the chunks of a method depend on; JSON values for a fingerprint.

    For `text` it is `[text.VERSION]`. Raises UnknownName as `chunk_passage` does.
    """
    check(by)
    if by == "text":
        return [text.VERSION]
    from ragc.corpora.chunking import markdown, markdown_blocks

    return [by, text.VERSION, markdown.VERSION, markdown_blocks.parser_version()]
