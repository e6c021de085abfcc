"""Markdown and plain text."""

from __future__ import annotations

import re
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, title_of

_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*?)\s*#*$", re.MULTILINE)
_CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def read(path: Path) -> Document:
    """Reads Markdown as it is, and other text with lines escaped that Markdown would read as markup."""
    text = decoded(path.read_bytes())
    if path.suffix.lower() in (".md", ".markdown"):
        heading = _HEADING.search(_CODE.sub("", text))
        return Document(heading.group(1) if heading else title_of(path), (Page(text),))
    return Document(title_of(path), (Page("\n".join(map(escaped, text.splitlines()))),))


def decoded(data: bytes) -> str:
    """Returns the text of `data`: that of its mark, UTF-8 or UTF-16, else UTF-8, else Windows-1252.

    What is invalid in the encoding of a mark becomes U+FFFD. Raises UnreadableDocument for data that is no
    text.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\x00" in data[:4096]:
        raise UnreadableDocument("is no text")
    if encoding:
        return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
