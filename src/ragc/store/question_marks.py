"""Marks of questions: digests by which a question is recognised in another file, spelling of signs or list.

A mark is 64 bits of a digest of the normalised text. Texts have one mark if they differ only in

- invisible characters (zero-width, soft hyphen, direction, variation selector, control),
- Unicode compatibility forms (NFKC) and case,
- white space, articles, and punctuation, that between or before digits apart (`17-5` is not `175`),
- labels in front, such as `Q:`, `Question 3:`, `3)`, `(b)`, `#3:`, and bullets.

A number with a dot in front may be a label or an ordinal ("2. Bundesliga: who won?"). Before a question word
or another frequent first word it is a label. Otherwise the question with it is the one without it, but not
the one with another number.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

DIGITS = 16
"""The hexadecimal digits of a mark."""

_ARTICLES = frozenset({"a", "an", "the"})

_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")
"""Characters that show nothing, although their category is a letter, a symbol or a mark."""

_WORD_LABEL = re.compile(
    r"(?:questions?|query|frage|pregunta|domanda|prompt|problem|exercise|item|task|input|user|human|quest|que|q)"
    r"\s*(?:(?:no|nr)\s*\.?|number|#)?\s*\d{0,9}\s*(?:[:)\]|>]+\s*|[.\-–—]+\s+)",
)
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

_EMPHASIS = re.compile(r"`|(?<!\d)(?:\*\*|__)|(?:\*\*|__)(?!\d)")
_WORD = re.compile(r"[^\W\d_]{2,}|[^\W\d_](?=\W*$)|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MAX_LABELS = 6
"""The most labels in front of each other that are taken off."""


def marks_of(text: str) -> tuple[str, ...]:
    """The marks that record a question with this `text`: one, or two behind an ambiguous number."""
    return _marks(text)[0]


def marks_sought(text: str) -> tuple[str, ...]:
    """The marks under which a recorded question is the one with this `text`."""
    return _marks(text)[1]


def normalise_question(text: str) -> str:
    """The text that a mark is a digest of, without labels; a number that may be an ordinal is kept."""
    return _forms(text)[0]


@lru_cache(maxsize=16_384)  # a compile asks for the same questions when it begins and when it ends
def _marks(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    key, bare = _forms(text)
    own = _digest(key)
    if bare:
        return (own, _digest(f"numbered\n{bare}")), (own, _digest(bare))
    return (own,), (own, _digest(f"numbered\n{key}"))


def _digest(key: str) -> str:
    content = f"ragc.question/2\n{key}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _forms(text: str) -> tuple[str, str]:
    """The normalised text, and that without a number in front that may be an ordinal; "" without one."""
    visible = _visible(unicodedata.normalize("NFKC", _visible(text).casefold()).casefold())
    plain = " ".join(_EMPHASIS.sub("", unicodedata.normalize("NFKC", visible)).split())
    rest, number = _without_labels(plain)
    bare = _joined(rest)
    if number:
        return _joined(f"{number} {rest}"), bare
    return bare or plain, ""


def _visible(text: str) -> str:
    """`text` without characters that show nothing; control characters that break lines become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if char.isspace() else char for char in text if char.isspace() or _shows(char))


def _shows(char: str) -> bool:
    if char in _BLANK_LETTERS or "\ufe00" <= char <= "\ufe0f" or "\U000e0000" <= char <= "\U000e0fff":
        return False
    return unicodedata.category(char) not in ("Cf", "Cc", "Cn")


def _without_labels(text: str) -> tuple[str, str]:
    """`text` without labels in front, and the number that may be an ordinal, "" if there is none.

    A label is taken off only where words follow.
    """
    rest = text
    for _ in range(_MAX_LABELS):
        rest = _without_bullets(rest)
        label = _first_match(_LABELS, rest) or _RANK.match(rest)
        if label is None:
            break
        after = _without_bullets(rest[label.end() :])
        if not _WORD.search(after):
            break
        if label.re is _RANK:
            first = re.match(r"[^\W\d_]+", after)
            known = first is not None and first[0] in _FIRST_WORDS
            if not (known or _first_match((*_LABELS, _RANK), after)):
                return after, label[0]
        rest = after
    return rest, ""


def _first_match(patterns: Iterable[re.Pattern[str]], text: str) -> re.Match[str] | None:
    """The match of the first of `patterns` at the beginning of `text`; None if there is none."""
    return next((match for pattern in patterns if (match := pattern.match(text))), None)


def _without_bullets(text: str) -> str:
    """`text` without bullets and quotation marks in front; a minus before a digit stays."""
    for at, char in enumerate(text):
        if char in "([#" or char.isalnum() or (_is_minus(char) and text[at + 1 : at + 2].isdigit()):
            return text[at:]
        if not (char.isspace() or unicodedata.category(char)[0] in "PS"):
            return text[at:]
    return text


def _is_minus(char: str) -> bool:
    return char in "-−"


def _joined(text: str) -> str:
    """The letters, digits and symbols of `text` without white space, articles, and most punctuation."""
    words = [word for word in re.split(r"\s+", _without_punctuation(text)) if word and word not in _ARTICLES]
    out = ""
    for word in words:
        out += " " + word if out and out[-1].isdigit() and word[0].isdigit() else word
    return out


def _without_punctuation(text: str) -> str:
    """`text` without punctuation, but for that between digits, a minus before a digit, and `#` and `%` behind
    a letter or digit. Commas that group three digits go.
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
