"""Markdown and plain text."""

from __future__ import annotations

import re
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, title_of

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def read(path: Path) -> Document:
    """Reads Markdown as it is, and other text with lines escaped that Markdown would read as markup."""
    text = decoded(path.read_bytes())
    if path.suffix.lower() in (".md", ".markdown"):
        heading = _HEADING.search(text)
        return Document(heading.group(1) if heading else title_of(path), (Page(text),))
    return Document(title_of(path), (Page("\n".join(map(escaped, text.splitlines()))),))


def decoded(data: bytes) -> str:
    """Returns the text of `data`: UTF-8, UTF-16 with a mark, else Windows-1252.

    Raises UnreadableDocument for data that is no text.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\x00" in data[:4096]:
        raise UnreadableDocument("is no text")
    try:
        return data.decode(encoding or "utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
