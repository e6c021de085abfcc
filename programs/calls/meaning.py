"""What words and numbers of a reply mean: options, truth values, numbers, and texts that say nothing.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

NOTHING_MEANT: Any = object()

EMPTY = frozenset({"", "none", "null", "nothing", "n/a", "empty"})
FLAGS = {
    **dict.fromkeys(("true", "yes", "y", "on", "t", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "f", "0"), False),
}
_DIGITS = re.compile(r"[0-9]+")
_NUMBERED = re.compile(
    r"(?:(?:passages?|documents?|docs?|ids?|numbers?|no|parts?|components?|and|then)\b|[^\w{}\"]|[0-9]{1,4}\b)+",
    re.IGNORECASE,
)
BULLET = re.compile(r"(?:[-*\u2022]|\(?\d{1,2}[.):])\s+")
_NUMBER = re.compile(
    r"[^\w.+-]*(?:(?:passage|document|doc|id|number|no|part|component|score|about)\b[^\w+-]*)?"
    r"([-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?:\s*(?:/|out of|of)\s*([0-9]{1,6}))?\s*(?:%|percent|points?)?\W*",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"(?:the\s+|my\s+)?(?:\w+\s+)?(?:answer|option|choice|action|verdict)\s*(?:is|:|=)?\s*", re.IGNORECASE
)
_MARKS = " \t\r\n.,;:!?()[]{}<>\"'`*_\u201c\u201d\u2018\u2019"


def loads(text: str) -> Any:
    """The JSON value that `text` is; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def fold(name: Any) -> str:
    """`name` without case, blanks, hyphens and underscores."""
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def bare(text: str) -> str:
    """`text` without case and the marks around it."""
    return text.strip(_MARKS).casefold()


def is_text(schema: Mapping[str, Any]) -> bool:
    """Whether `schema` wants a text that may say anything."""
    return schema.get("type") == "string" and "enum" not in schema and "const" not in schema


def is_option(value: Any, options: Sequence[Any]) -> bool:
    """Whether `value` is one of `options`, of the same type."""
    return any(type(option) is type(value) and option == value for option in options)


def choose(value: Any, options: Sequence[Any]) -> Any:
    """The one of `options` that `value` means; `NOTHING_MEANT` where it means none, or it is not clear which."""
    words = [option for option in options if isinstance(option, str)]
    numbers = [option for option in options if type(option) is int]
    if isinstance(value, bool):
        return next((word for word in words if FLAGS.get(word.casefold()) is value), NOTHING_MEANT)
    if numbers and not words:
        number = number_in(value, max(numbers))
        if number is None:
            return NOTHING_MEANT
        if 0 < number < 1 and max(numbers) == 100:
            number *= 100
        inside = min(numbers) <= number <= max(numbers)
        return min(numbers, key=lambda option: abs(option - number)) if inside else NOTHING_MEANT
    if not isinstance(value, str):
        return NOTHING_MEANT
    return _choose_word(value, words)


def _choose_word(text: str, words: Sequence[str]) -> Any:
    for spell in (bare, fold):
        spelling = spell(text)
        for option in words:
            if spelling and spell(option) == spelling:
                return option
    if bare(text) in ("true", "false"):
        return next((w for w in words if FLAGS.get(w.casefold()) is FLAGS[bare(text)]), NOTHING_MEANT)
    label = _LABELLED.match(text)
    for start in [text, *([text[label.end() :]] if label and label.end() else [])]:
        begun = [option for option in words if _begins(start.lstrip(_MARKS + "-"), option)]
        if begun:
            return max(begun, key=len)
    return NOTHING_MEANT


def _begins(text: str, option: str) -> bool:
    """Whether `text` begins with `option` as a word of its own."""
    pattern = r"[\W_]+".join(re.escape(part) for part in re.split(r"[\W_]+", option) if part)
    end = r"(?=\W|$)" if len(option) > 2 else r"(?=[^\w\s'\u2019-]|\s+[^\w\s'\u2019]|\s*$)"
    return bool(pattern) and re.match(pattern + end, text, re.IGNORECASE) is not None


def number_in(value: Any, most: Any = None) -> Any:
    """The number that `value` is or spells; None where it is none. Of a fraction `most` is the whole."""
    if isinstance(value, (int, float)):
        return value if not isinstance(value, bool) and math.isfinite(value) else None
    spelled = _NUMBER.fullmatch(value) if isinstance(value, str) and len(value) < 200 else None
    if spelled is None or (spelled[2] is not None and (most is None or int(spelled[2]) != most)):
        return None
    return float(spelled[1]) if "." in spelled[1] else int(spelled[1])


def numbers_in(text: str) -> list[int]:
    """The integers that `text` lists, with nothing but marks and words such as "passage" around them."""
    return [int(digits) for digits in _DIGITS.findall(text)] if _NUMBERED.fullmatch(text) else []


def nearest_integer(number: Any, low: Any, high: Any) -> int:
    """The integer nearest to `number`; of a share, where `low` to `high` is a percentage, its percentage."""
    if 0 < number < 1 and (low, high) == (0, 100):
        number *= 100
    return number if isinstance(number, int) else math.floor(number + 0.5)


def written(value: Any) -> str | None:
    """A scalar, or a list of texts, as a text; None for other values."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return json.dumps(value) if math.isfinite(value) else None
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        return ", ".join(texts) if texts and len(texts) == len(value) else None
    return None


def first_words(text: str, most: int, least: int = 0) -> str:
    """The first words of `text` that take `most` characters; of a longer first word its beginning."""
    cut = text[:most]
    if not any(char.isspace() for char in text[most - 1 : most + 1]):
        cut = " ".join(cut.rsplit(None, 1)[:-1]) or cut
    cut = cut.rstrip()
    return cut if len(cut) >= max(1, least) else text[:most]
