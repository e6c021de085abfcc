"""The ways to cut passages into chunks, by name.

text        at paragraphs, lines, sentences, words (`text`)
markdown    before headings, between blocks, items and rows (`markdown`)
sections    as markdown, and the title of every chunk names its section
"""

from __future__ import annotations

from ragc.corpora.chunking import markdown, text
from ragc.corpora.chunking.markdown_blocks import parser_version
from ragc.errors import UnknownName
from ragc.records import Passage

METHODS = ("text", "markdown", "sections")


def chunk_passage(passage: Passage, size: int, overlap: float = 0.0, by: str = "text") -> tuple[Passage, ...]:
    """`passage` in chunks of at most `size` tokens; each repeats at most `overlap * size` of the one before.

    Raises UnknownName unless `by` is one of `METHODS`, UsageError unless `size >= 1` and `0 <= overlap < 1`.
    """
    check(by)
    if by == "text":
        return text.chunk(passage, size, overlap)
    return markdown.chunk_markdown(passage, size, overlap, headed=by == "sections")


def settings(size: int | None, overlap: float, by: str = "text") -> list[str | int | float]:
    """The chunk settings for fingerprints; empty if passages are not cut (`size` None).

    Raises UnknownName and UsageError as `chunk_passage` does.
    """
    check(by)
    if size is None:
        return []
    text.check(size, overlap)
    return [size, float(overlap), *version(by)]


def check(by: str) -> None:
    """Raises UnknownName unless `by` is one of `METHODS`."""
    if by not in METHODS:
        raise UnknownName("way to cut passages", by, METHODS)


def version(by: str = "text") -> list[str | int]:
    """The versions that the chunks of a method depend on; JSON values for a fingerprint.

    For `text` it is `[text.VERSION]`. Raises UnknownName as `chunk_passage` does.
    """
    check(by)
    if by == "text":
        return [text.VERSION]
    return [by, text.VERSION, markdown.VERSION, parser_version()]
