"""Marks of questions: digests by which a question is recognised in another file, with another spelling.

A mark is 64 bits of a digest of the normalised text. Texts have one mark if they differ only in

- invisible characters (zero-width, soft hyphen, direction, variation selector, control),
- Unicode compatibility forms (NFKC) and case,
- white space, articles, and punctuation, that between or before digits apart (`17-5` is not `175`),
- labels in front, such as `Q:`, `Question 3 of 10:`, `Example 4:`, `3)`, `(b)`, `#3:`, headings and bullets,
- an `Answer:` behind.

A number with a dot in front may be a label or an ordinal ("2. Bundesliga: who won?"). Before a question word
or another frequent first word it is a label. Otherwise the question with it is the one without it, but not
the one with another number. A Roman numeral with a dot is a label before such a word alone ("III. Reich").

Marks are stored in ledgers and compiled programs for long. The first versions did not remove labels in
`_LATER_LABELS` and texts of `_opened`; a text with one is therefore also sought under its old mark.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

DIGITS = 16
"""The hexadecimal digits of a mark."""

_ARTICLES = frozenset({"a", "an", "the"})

_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")
"""Characters that show nothing, although their category is a letter, a symbol or a mark."""

_LABEL_WORDS = (
    "questions?|query|frage|pregunta|domanda|prompt|problem|exercise|item|task|input|user|human|quest|que|q"
)
_COUNTED_WORDS = (
    "examples?|ex|sample|aufgabe|beispiel|übung|exemple|exercice|ejemplo|ejercicio|esempio|esercizio"
)
"""Words that are labels only with a number behind them."""

_SIGN = r"(?:(?:no|nr)\s*\.?|number|#)?"
_LABEL_END = r"\s*(?:[:)\]|>]+\s*|[.\-–—]+\s+)"
_COUNT = r"\d{1,9}(?:\.\d{1,9})*(?:\s*(?:of|out of|/|von|sur|de|di)\s*\d{1,9})?"
"""A number, or one of several: `3`, `1.2`, `3 of 10`."""

_WORD_LABEL = re.compile(rf"(?:{_LABEL_WORDS})\s*{_SIGN}\s*\d{{0,9}}{_LABEL_END}")
_SIGNED_NUMBER = re.compile(r"(?:#|no\.?|nr\.?|№)\s*\d{1,9}\s*[.:)\]\-–—|]+\s*(?!\d)")
_NUMBER = re.compile(
    r"[(\[]?\d{1,9}(?:\.\d{1,9})*\s*(?:[.:]?[)\]]+[.:]?\s*|[:|]\s*(?!\d)|\s[\-–—]+\s+(?!\d))"
)
_LETTER = re.compile(r"(?:[(\[][a-z]|[(\[]?(?:[a-h]|[ivx]{1,5}))[)\]]+[.:]?\s+|[(\[](?:[ivx]{1,5})[)\]]+\s*")
_RANK = re.compile(
    r"\d{1,9}(?:\.\d{1,9})*\.+(?:\s*(?=[^\W\d_])|\s+)|(?:#|no\.?|nr\.?|№)\s*\d{1,9}\s+",
)
"""A number that may be a label or an ordinal, such as `3.` and `#3`."""

_LABELS = (_WORD_LABEL, _SIGNED_NUMBER, _NUMBER, _LETTER)

_COUNTED_LABEL = re.compile(
    rf"(?:{_LABEL_WORDS}|{_COUNTED_WORDS})\s*[.\-–—]?\s*{_SIGN}\s*{_COUNT}{_LABEL_END}"
)
_HEADING_SIGN = re.compile(r"#{1,6}\s+(?=[^\W\d_])")
_LATER_LABELS = (_COUNTED_LABEL, _HEADING_SIGN)

_DOTTED_RANK = re.compile(r"(?:questions?|quest|que|q)\.\s*\d{1,9}\s+")
"""`Q.1` in front of a question, which may be a label or a quarter of a year."""

_ROMAN = re.compile(r"(?=[ivx])x{0,3}(?:ix|iv|v?i{0,3})\.\s+")

_HEADING = re.compile(
    rf"\A[\s#]*((?:{_LABEL_WORDS})\s*(?:[.\-–—]?\s*{_SIGN}\s*{_COUNT})?"
    rf"|(?:{_COUNTED_WORDS})\s*[.\-–—]?\s*{_SIGN}\s*{_COUNT})[ :.)]*\n",
)
"""A label on a line of its own in front of the question."""

_ANSWER_WORDS = "answer|a|antwort|réponse|respuesta|risposta"
_ANSWER = re.compile(
    rf"(?:\n\s*|(?<=[?!])\s+)(?:#{{1,6}}\s+(?:{_ANSWER_WORDS})\s*:?"
    rf"|(?:(?:your|final|short)\s+)?(?:{_ANSWER_WORDS})\s*:)\s*\Z"
)
"""The place for the answer behind a question."""

_FREQUENT = """
what which who whom whose when where why how is are was were am be do does did has have had can could will
would shall should may might must if in on at of for from to by with as the a an this these that those there
name give list tell explain describe find write compute calculate define show please let
wer wen wem wessen wann wo warum wie welche welcher welches ist sind war waren hat haben der die das ein eine
quel quelle quels quelles qui que quoi où quand comment pourquoi est le la les un une
qué quién quiénes cuál cuáles cuándo dónde cómo por el los chi che cosa quale quando dove perché il
"""
_FIRST_WORDS = frozenset(_FREQUENT.split())
"""Words after which nobody takes the number in front of them for an ordinal."""

_TITLES = "a an the this that these those of as by der die das ein eine le la les un une el los il"
_AFTER_NUMERAL = _FIRST_WORDS - frozenset(_TITLES.split())
"""Those that no title or name begins with, after a letter that may be a number."""

_EMPHASIS = re.compile(r"`|(?<!\d)(?:\*\*|__)|(?:\*\*|__)(?!\d)")
_WORD = re.compile(r"[^\W\d_]{2,}|[^\W\d_](?=\W*$)|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MAX_LABELS = 6
"""The most labels in front of each other that are taken off."""


def marks_to_store(text: str) -> tuple[str, ...]:
    """Returns the marks that record a question with this `text`: one, or two behind an ambiguous number."""
    return _marks(text)[0]


def marks_to_search(text: str) -> tuple[str, ...]:
    """Returns the marks under which a recorded question is the one with this `text`."""
    return _marks(text)[1]


def lookup_keys(text: str) -> tuple[str, ...]:
    """Returns the marks that list a question with this `text` alone: the present one, and the old one."""
    return _marks(text)[2]


@lru_cache(maxsize=16_384)  # a compile asks for the same questions when it begins and when it ends
def _marks(text: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Returns the marks that record `text`, those to seek it under, and those that list it alone."""
    forms = _forms(text)
    recorded, sought = _marks_in(forms)
    if not forms.later:
        return recorded, sought, recorded[:1]
    first_recorded, first_sought = _marks_in(_forms(text, later=False))
    every = tuple(dict.fromkeys((*sought, *first_sought)))
    return recorded, every, tuple(dict.fromkeys((recorded[0], first_recorded[0])))


def _marks_in(forms: _Forms) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = _digest(forms.key)
    if forms.bare:
        return (own, _digest(f"numbered\n{forms.bare}")), (own, _digest(forms.bare))
    return (own,), (own, _digest(f"numbered\n{forms.key}"))


def _digest(key: str) -> str:
    content = f"ragc.question/2\n{key}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:DIGITS]


class _Forms(NamedTuple):
    """The normalised text, and that without a number in front that may be an ordinal; "" without one.

    `later` says whether a label was removed that the first versions of this format did not know.
    """

    key: str
    bare: str
    later: bool


def _forms(text: str, *, later: bool = True) -> _Forms:
    """Returns the forms of `text`, without labels that were added `later` or with them."""
    visible = _visible(unicodedata.normalize("NFKC", _visible(text).casefold()).casefold())
    lines = _EMPHASIS.sub("", unicodedata.normalize("NFKC", visible))
    opened = _opened(lines) if later else lines
    plain = " ".join(opened.split())
    rest, number, added = _without_labels(plain, later=later)
    bare = _joined(rest)
    added = added or opened != lines
    if number:
        return _Forms(_joined(f"{number} {rest}"), bare, added)
    return _Forms(bare or plain, "", added)


def _opened(lines: str) -> str:
    """Returns `lines` without the place for an answer at the end, and with a colon behind a label on its own
    line.
    """
    if "\n" not in lines and not lines.rstrip().endswith(":"):
        return lines
    answer = _ANSWER.search(lines)
    if answer and _WORD.search(lines, 0, answer.start()):
        lines = lines[: answer.start()]
    return _HEADING.sub(r"\1: ", lines)


def _visible(text: str) -> str:
    """Returns `text` without characters that show nothing; white space is a line break or a space."""
    if text.isascii() and text.isprintable():
        return text
    spaced = (
        _space(char) if char.isspace() else char for char in text if char.isspace() or _is_visible(char)
    )
    return "".join(spaced)


def _space(char: str) -> str:
    return "\n" if char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029" else " "


def _is_visible(char: str) -> bool:
    if char in _BLANK_LETTERS or "\ufe00" <= char <= "\ufe0f" or "\U000e0000" <= char <= "\U000e0fff":
        return False
    return unicodedata.category(char) not in ("Cf", "Cc", "Cn")


def _without_labels(text: str, *, later: bool) -> tuple[str, str, bool]:
    """Returns `text` without labels in front, and the number that may be an ordinal, "" if there is none.

    A label is removed only before words. The last value says whether a label was one of those that were added
    `later`.
    """
    rest, added = text, False
    labels = (*_LABELS, *_LATER_LABELS) if later else _LABELS
    ranks = (_RANK, _DOTTED_RANK, _ROMAN) if later else (_RANK,)
    for _ in range(_MAX_LABELS):
        rest = _without_bullets(rest)
        label = _first_match((*labels, *ranks), rest)
        if label is None:
            break
        after = _without_bullets(rest[label.end() :])
        if not _WORD.search(after):
            break
        sure = label.re in labels or _is_label_before(after, label.re, (*labels, _RANK))
        if not sure and label.re is _ROMAN:
            break
        added = added or label.re not in (*_LABELS, _RANK)
        if not sure:
            return after, label[0], added
        rest = after
    return rest, "", added


def _is_label_before(after: str, rank: re.Pattern[str], labels: Sequence[re.Pattern[str]]) -> bool:
    """Returns whether a `rank` before `after` is a label: an unranked word follows, or another label."""
    first = re.match(r"[^\W\d_]+", after)
    known = _FIRST_WORDS if rank is _RANK else _AFTER_NUMERAL
    if first is not None and first[0] in known:
        return True
    return rank is not _ROMAN and _first_match(labels, after) is not None


def _first_match(patterns: Iterable[re.Pattern[str]], text: str) -> re.Match[str] | None:
    """Returns the match of the first of `patterns` at the beginning of `text`; None if there is none."""
    return next((match for pattern in patterns if (match := pattern.match(text))), None)


def _without_bullets(text: str) -> str:
    """Returns `text` without bullets and quotation marks in front; a minus before a digit stays."""
    for at, char in enumerate(text):
        if char in "([#" or char.isalnum() or (_is_minus(char) and text[at + 1 : at + 2].isdigit()):
            return text[at:]
        if not (char.isspace() or unicodedata.category(char)[0] in "PS"):
            return text[at:]
    return text


def _is_minus(char: str) -> bool:
    return char in "-−"


def _joined(text: str) -> str:
    """Returns the letters, digits and symbols of `text` without white space, articles, most punctuation."""
    words = [word for word in re.split(r"\s+", _without_punctuation(text)) if word and word not in _ARTICLES]
    out = ""
    for word in words:
        out += " " + word if out and out[-1].isdigit() and word[0].isdigit() else word
    return out


def _without_punctuation(text: str) -> str:
    """Returns `text` without punctuation, but for that between digits, a minus before a digit, and `#` and
    `%` behind a letter or digit. Commas that group three digits go.
    """
    if text.isascii() and text.replace(" ", "").isalnum():
        return text
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)\s*([^\w\s])\s*(?=\d)", r"\1", text)
    out: list[str] = []
    for at, char in enumerate(text):
        if char.isalnum() or char.isspace() or unicodedata.category(char)[0] != "P":
            out.append(char)
            continue
        before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
        between = before.isdigit() and after.isdigit()
        minus = _is_minus(char) and after.isdigit() and not before.isalnum()
        if between or minus or (char in "#%" and before.isalnum()):
            out.append(char)
    return "".join(out)
