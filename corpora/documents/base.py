"""A document: a title, and Markdown by page; and what readers of all kinds of files share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile, zip_longest
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

MAX_TITLE = 200
"""The most characters of a title that stands above each passage."""

MAX_REPEATED = 80
"""The most characters of a cell over several rows or columns that is repeated in each of them."""

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
_NUMBER = re.compile(r"\W*\d[\d.,]*\W*")
_SPELLED = frozenset(("st", "nd", "rd", "th", "er", "re", "e", "o", "a", "os", "as", "tm", "sm"))
_FORMULAS: Mapping[str, str] = {
    **dict.fromkeys(("sSup", "msup"), "{0}^{1}"),
    **dict.fromkeys(("sSub", "msub"), "{0}_{1}"),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), "{0}_{1}^{2}"),
    **dict.fromkeys(("f", "mfrac"), "{0}/{1}"),
    **dict.fromkeys(("rad", "mroot"), "√{1}"),
    "msqrt": "√{0}",
    **dict.fromkeys(("d", "mfenced"), "({0})"),
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
        title = (self.title or re.sub(r"[_\s]+", " ", path.stem).strip() or path.name)[:MAX_TITLE]
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
    name = node.tag.rpartition("}")[2]
    texts, form = [formula(part, text_of) for part in parts], _FORMULAS.get(name)
    if name == "nary":  # a sum or another one names its sign
        signs = [sign for properties in node.iterfind("{*}naryPr/{*}chr") for sign in properties.values()]
        form = f"{(*signs, '∫')[0]}_{{0}}^{{1}} {{2}}"
    if name in ("msqrt", "mfenced", "d"):
        texts = ["".join(texts)]
    if form is None or len(texts) < form.count("{"):
        return "".join(texts)
    simple = ".*" if form == "({0})" else r"\w*|-?[\d.,]+|\([^()]*\)"
    line = form.format(*(text if re.fullmatch(simple, text) else f"({text})" for text in texts))
    return re.sub(r"[_^](?=[\s^]|$)", "", line)


def repeated(text: str) -> str:
    """Returns what a cell over several rows or columns has in the second and later ones: a short `text`."""
    return text if len(text) <= MAX_REPEATED else ""


def tables(rows: Iterable[Sequence[object]], label: str, *, first: int = 1) -> list[Page]:
    """Returns `rows` as tables of at most `ROWS` rows below a header, labelled by the numbers of the rows.

    `first` is the number of the first row. The first row of two cells or more is the header, and rows of one
    cell above it are lines of text. After an empty row another table may begin, with a header of text under
    such a line or above numbers.
    """
    filled = [(number, row) for number, row in enumerate(rows, first) if _filled(row)]
    is_wide = any(len(_filled(row)) > 1 for _, row in filled)
    header, lines, parts = list[object](), list[str](), list[tuple[str, str]]()
    for _, run in groupby(enumerate(filled), lambda item: item[1][0] - item[0]):
        block = [row for _, row in run]
        above = list(takewhile(lambda row: is_wide and len(_filled(row[1])) == 1 and _is_text(row[1]), block))
        lines += [escaped(_cell(_filled(row)[0])) for _, row in above]
        body = block[len(above) :]
        if body and (
            not header or (_is_text(body[0][1]) and (lines or not all(_is_text(r) for _, r in body)))
        ):
            header = [*body[0][1]]
        body = [row for row in body if [*row[1]] != header]
        for start in range(0, len(body) or int(len(block) > len(above)), ROWS):
            part = body[start : start + ROWS]
            text = "\n\n".join([*lines, table([header, *(row for _, row in part)])])
            numbers = [number for number, _ in part or block]
            parts.append((text, f"rows {numbers[0]} to {numbers[-1]}"))
            lines = []
    if lines:
        parts.append(("\n\n".join(lines), f"rows {filled[-1][0]} to {filled[-1][0]}"))
    return [
        Page(text, ", ".join(filter(None, (label, span if len(parts) > 1 else "")))) for text, span in parts
    ]


def _filled(row: Sequence[object]) -> list[object]:
    return [value for value in row if value not in ("", None)]


def _is_text(row: Sequence[object]) -> bool:
    """Returns whether no cell is a number or a date."""
    return all(isinstance(value, str) and not _NUMBER.fullmatch(value) for value in _filled(row))


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
