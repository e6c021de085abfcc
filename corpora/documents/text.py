"""Markdown, plain text, and tables in text files; and the encodings of all text."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, tables

_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*?)[ \t]*#*$", re.MULTILINE)
_CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_AS_BROWSERS_READ = {
    **dict.fromkeys(("gb2312", "gb_2312-80", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "ascii", "us-ascii"), "cp1252"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601"), "cp949"),
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be", "unicode"), "utf-8"),  # the label itself is ASCII
    "big5": "big5hkscs",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
}
"""The encodings that the standard of the web gives to these labels."""

_USUAL = (
    *("cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949", "cp874"),
)
"""The encodings among which that of a text is looked for; of equally likely ones the first is taken."""


def read(path: Path) -> Document:
    """Reads Markdown as it is, and other text with lines escaped that Markdown would read as markup."""
    text, notes = decoded(path.read_bytes())
    if path.suffix.lower() in (".md", ".markdown"):
        heading = _HEADING.search(_CODE.sub("", text))
        return Document(heading.group(1) if heading else "", (Page(text),), notes)
    return Document("", (Page("\n".join(map(escaped, text.splitlines()))),), notes)


def read_table(path: Path) -> Document:
    """Reads a table, whose first row is the header, in pages of rows, with commas, semicolons, tabs or bars
    between the cells.
    """
    text, notes = decoded(path.read_bytes())
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    csv.field_size_limit(len(text) + 1)
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if text.count('"') % 2 else csv.QUOTE_MINIMAL,  # a lone quote is a letter
    )
    return Document("", tuple(tables(list(rows), "")), notes)


def decoded(data: bytes, declared: str = "") -> tuple[str, tuple[str, ...]]:
    """Returns the text of `data`, and a note if its encoding is in doubt.

    The encoding is that of its mark, else the one `declared`, as browsers read it, else UTF-8, else the one
    that the text itself suggests. Raises UnreadableDocument for data that is no text.
    """
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not mark and b"\x00" in data[:4096]:
        raise UnreadableDocument("is no text")
    for encoding in filter(None, (mark, _AS_BROWSERS_READ.get(declared.lower(), declared), "utf-8")):
        try:
            text = data.decode(encoding, errors="replace")
        except LookupError:
            continue
        wrong = text.count("\ufffd")
        if not wrong or mark or 4 * wrong <= len(re.findall(r"[^\x00-\x7f\ufffd]", text)):
            note = f"{wrong} bytes are no valid {encoding} and were replaced"
            return text, (note,) if wrong else ()
    from charset_normalizer import from_bytes

    matches = from_bytes(data[:100_000], cp_isolation=list(_USUAL))
    best = min(
        matches, key=lambda match: (match.chaos, -match.coherence, _USUAL.index(match.encoding)), default=None
    )
    encoding = best.encoding if best else "cp1252"
    return data.decode(encoding, errors="replace"), (f"its encoding is not said; it was read as {encoding}",)
