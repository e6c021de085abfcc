"""A document: a title, and Markdown by page; and what readers of all kinds of files share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

from ragc.core.text import repair_surrogates
from ragc.errors import RagcError

_PACKAGE = "ragc.corpora.documents"
KINDS: Mapping[str, str] = {
    ".pdf": f"{_PACKAGE}.pdf:read",
    **dict.fromkeys((".docx", ".docm"), f"{_PACKAGE}.office:read_word"),
    **dict.fromkeys((".pptx", ".pptm"), f"{_PACKAGE}.office:read_slides"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), f"{_PACKAGE}.office:read_sheets"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), f"{_PACKAGE}.html:read"),
    **dict.fromkeys((".csv", ".tsv"), f"{_PACKAGE}.text:read_table"),
    **dict.fromkeys((".md", ".markdown", ".txt", ".text", ".rst"), f"{_PACKAGE}.text:read"),
}
"""The reader of each suffix: a function from a path to a `Document`, as `module:name`."""

ROWS = 40
"""Rows of a sheet in one page; each page repeats the header."""

_PLACEHOLDER = re.compile(
    r"\W*(?:untitled(?: document)?|unknown|anonymous|document ?\d*|(?:powerpoint )?presentation\d*|tmp\w*"
    r"|(?:no )?title|microsoft (?:word|excel|powerpoint)\b.*"
    r"|.*\.(?:docx?|pptx?|xlsx?|pdf|dvi|tex|rtf|odt|indd|qxd|html?|tmp))?\W*",
    re.IGNORECASE,
)
_PICTURE = re.compile(r"!\[([^\]\n]{0,300})\]\(<?data:[^)\n]*\)")
_DATA = re.compile(r"<?data:[\w.+/-]{0,99};base64,[\w+/=%-]*>?")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u2060\ufeff\ud800-\udfff]|(?<![\u0e00-\u109f\u1780-\u17ff])\u200b"
)
_BLANKS = re.compile(r"[^\S\n]{100,}")
_UNSPACED = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffee\U00020000-\U0003ffff]")
_SPELLED = frozenset(("st", "nd", "rd", "th", "er", "re", "e", "o", "a", "os", "as", "tm", "sm"))
_FORMULAS: Mapping[str, str] = {
    **dict.fromkeys(("sSup", "msup"), "{0}^{1}"),
    **dict.fromkeys(("sSub", "msub"), "{0}_{1}"),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), "{0}_{1}^{2}"),
    **dict.fromkeys(("f", "mfrac"), "{0}/{1}"),
    **dict.fromkeys(("rad", "mroot"), "√{1}"),
    "msqrt": "√{0}",
}
"""How elements of Office's and the web's formulas are written, by the texts of their parts."""


class UnreadableDocument(RagcError):
    """A file that cannot be read, with the reason as a sentence without a subject, such as `is empty`."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a document that a citation can name.

    `text` is Markdown. `label` is the part's name in a citation, such as `page 3`, `slide 2` or
    `sheet Prices`; "" if the file has no such parts. `section` is the path of headings at its beginning.
    """

    text: str
    label: str = ""
    section: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read, as a reader returns it.

    `title` is "" if the file has none; `notes` are sentences on what was left out or is in doubt, such as
    hidden sheets. `reason` says why nothing was read, "" if something was. ragc sets `name`, the path below
    the folder, and `fresh`, False for text from the cache.
    """

    title: str = ""
    pages: tuple[Page, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    name: str = ""
    fresh: bool = field(default=True, compare=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of the corpus for each page with text; its id is the text of a citation."""
        path, times = PurePath(self.name), Counter[str]()
        title = self.title or re.sub(r"[_\s]+", " ", path.stem).strip() or path.name
        for page in self.pages:
            if page.text.strip():
                label = ", ".join(filter(None, (self.name, page.label)))
                label = re.sub(r"#(\d+)$", r"# \1", label)  # `#0` at the end of an id marks a chunk
                times[label] += 1
                yield {
                    "id": f"{label} ({times[label]})" if times[label] > 1 else label,
                    "title": ": ".join(filter(None, (title, " > ".join(page.section)))),
                    "text": page.text,
                    "source": self.name,
                    "page": page.label,
                    "section": list(page.section),
                }


def kind_of(path: PurePath) -> str:
    """Returns the reader of `path` by its suffix, as `module:name`; "" for none."""
    return KINDS.get(path.suffix.lower(), "")


def real_title(text: str | None) -> str:
    """Returns the title that a file states; "" for what programs write where nobody gave one."""
    title = " ".join((text or "").split())
    return "" if _PLACEHOLDER.fullmatch(title) else title


def escaped(line: str) -> str:
    """Returns a line of running text so that Markdown reads no heading, table, quote or code in it."""
    return re.sub(r"^(\s*)(#|\||>|```|~~~)", r"\1\\\2", line)


def continued(text: str, line: str) -> str:
    """Returns `text` with the next line of it; Chinese and Japanese have no space at the end of a line."""
    is_spaced = text and not (_UNSPACED.fullmatch(text[-1:]) and _UNSPACED.fullmatch(line[:1]))
    return f"{text}{' ' if is_spaced else ''}{line}"


def cleaned(text: str) -> str:
    """Returns the Markdown `text` without pictures in base64, invisible characters and long blanks."""
    text = _DATA.sub("", _PICTURE.sub(r"\1", repair_surrogates(text)))
    return _BLANKS.sub(" ", printable(text.replace("\r\n", "\n")))


def printable(text: str) -> str:
    """Returns `text` without control characters, invisible ones and halves of surrogate pairs."""
    return _INVISIBLE.sub("", text)


def raised(text: str) -> str:
    """Returns a superscript apart from the text before it, such as `^6`; ordinals such as `th` stay."""
    return (
        text if not text.strip() or text.strip().lower() in _SPELLED or not text[0].isalnum() else f"^{text}"
    )


def lowered(text: str) -> str:
    """Returns a subscript: digits as such, so that H₂O stays apart from H20, other text after `_`."""
    digits = text.translate(str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋"))
    return digits if not re.search(r"\w", text) or digits != text else f"_{text}"


def shifted(text: str, kind: str) -> str:
    """Returns `text` of a superscript or subscript, as `kind` says: the name of one, which may be short, or
    Office's shift upwards in thousandths; other text as it is.
    """
    if kind.startswith(("sub", "-")):
        return lowered(text)
    return raised(text) if kind.startswith("sup") or kind.strip("0").isdigit() else text


def formula(node: Any, text_of: Callable[[Any], str]) -> str:
    """Returns a formula of Office (OMML) or the web (MathML) as a line, such as `a^2/(b+c)`.

    `text_of` gives the text of the elements without parts.
    """
    parts = [part for part in node if isinstance(part.tag, str) and not part.tag.endswith("Pr")]
    if not parts:
        return text_of(node)
    texts = [formula(part, text_of) for part in parts]
    form = _FORMULAS.get(node.tag.rpartition("}")[2])
    texts = ["".join(texts)] if form == "√{0}" else texts
    if form is None or len(texts) < form.count("{"):
        return "".join(texts)
    return form.format(*(text if re.fullmatch(r"\w*|-?[\d.,]+", text) else f"({text})" for text in texts))


def tables(rows: Sequence[Sequence[object]], label: str, *, first: int = 1) -> Iterator[Page]:
    """Yields `rows`, of which the first is the header, as tables of at most `ROWS` rows below it, labelled by
    the numbers of the rows. `first` is the number of the first one.
    """
    filled = [(n, row) for n, row in enumerate(rows, first) if any(value not in ("", None) for value in row)]
    header, body = [row for _, row in filled[:1]], filled[1:]
    for start in range(0, max(1, len(body)), ROWS):
        block = body[start : start + ROWS]
        span = f"rows {block[0][0]} to {block[-1][0]}" if len(body) > ROWS else ""
        yield Page(table([*header, *(row for _, row in block)]), ", ".join(filter(None, (label, span))))


def table(rows: Sequence[Sequence[object]]) -> str:
    """Returns `rows`, the first of them the header, as a Markdown table; "" for no rows."""
    columns = [
        column
        for column in zip_longest(*([_cell(value) for value in row] for row in rows), fillvalue="")
        if any(column)
    ]
    lines = [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True) if any(row)]
    return "\n".join([*lines[:1], f"|{' --- |' * len(columns)}", *lines[1:]]) if lines else ""


def _cell(value: object) -> str:
    text = f"{value:.15g}" if isinstance(value, float) else "" if value is None else str(value)
    return " ".join(text.split()).replace("|", "\\|")
