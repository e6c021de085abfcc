"""Markdown, plain text, and tables in text files; and the encodings of all text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, tables

_HEADING = re.compile(r"^(?:#{1,6}[ \t]+(\S.*?)[ \t]*#*|(\S.*)\n=+[ \t]*)$", re.MULTILINE)
_CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_AS_BROWSERS_READ = {
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),  # the label itself is ASCII
    **dict.fromkeys(("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"), "utf-8"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
"""The encodings that browsers take for these codecs of Python; some of them are no encodings of pages."""

_LATIN = ("cp1252", "cp1250", "cp1254")
_USUAL = (
    *(*_LATIN, "cp1251", "cp1253", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949", "cp874"),
)
"""The encodings among which that of a text is looked for; of equally likely ones the first is taken."""


def read(path: Path) -> Document:
    """Reads Markdown as it is, and other text with lines escaped that Markdown would read as markup."""
    text, notes = decoded(path.read_bytes())
    if path.suffix.lower() in (".md", ".markdown"):
        heading = _HEADING.search(_CODE.sub("", text))
        return Document(heading.group(1) or heading.group(2) if heading else "", (Page(text),), notes)
    return Document("", (Page("\n".join(map(escaped, text.splitlines()))),), notes)


def read_table(path: Path) -> Document:
    """Reads a table, whose first row is the header, in pages of rows, with commas, semicolons, tabs or bars
    between the cells.
    """
    text, notes = decoded(path.read_bytes())
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    csv.field_size_limit(2**31 - 1)
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if text.count('"') % 2 else csv.QUOTE_MINIMAL,  # a lone quote is a letter
    )
    return Document("", tuple(tables(rows, "")), notes)


def decoded(data: bytes, declared: str = "", *, is_page: bool = False) -> tuple[str, tuple[str, ...]]:
    """Returns the text of `data`, and a note if its encoding is in doubt.

    The encoding is that of its mark, else UTF-8 if it reads so, else the one `declared`, by a page itself if
    nothing else says it, as browsers read it, else the one that the text itself suggests. Raises
    UnreadableDocument for data that is no text.
    """
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not mark and b"\x00" in data[:4096]:
        raise UnreadableDocument("is no text")
    if is_page and not declared and (match := _DECLARED.search(data, 0, 4096)):
        declared = match.group(1).decode("ascii")
    # What reads as UTF-8 is UTF-8 whatever a page says of itself, unless it is ASCII with escapes.
    order = (declared, "utf-8") if data.isascii() else ("utf-8", declared)
    for label in filter(None, (mark, *order)):
        try:
            name = codecs.lookup(label.lower().removeprefix("x-")).name
            encoding = mark or _AS_BROWSERS_READ.get(name, name)
            text = data.decode(encoding, errors="replace")
        except (LookupError, ValueError):
            continue
        wrong = text.count("\ufffd")
        if not wrong or mark or 4 * wrong <= len(re.findall(r"[^\x00-\x7f\ufffd]", text)):
            note = f"bytes that are not {encoding} were replaced: {wrong}"
            return text, (note,) if wrong else ()
    from charset_normalizer import from_bytes

    runs = re.findall(rb"[\x80-\xff]+", data[:100_000])
    # Words of Latin letters rarely have two beyond ASCII side by side; guesses from so few are bad.
    usual = _USUAL if 2 * sum(len(run) > 1 for run in runs) > len(runs) else _LATIN
    matches = from_bytes(data[:100_000], cp_isolation=list(usual))
    best = min(
        matches, key=lambda match: (match.chaos, -match.coherence, usual.index(match.encoding)), default=None
    )
    encoding = best.encoding if best else "cp1252"
    return data.decode(encoding, errors="replace"), (f"its encoding is not said; it was read as {encoding}",)
