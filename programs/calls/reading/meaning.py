"""What words and numbers of a reply mean: options, truth values, and numbers.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

NO_MEANING: Any = object()


def word_set(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


EMPTY = frozenset({"", "none", "null", "nothing", "n/a", "empty"})
FLAGS = {
    **dict.fromkeys(("\u2713", "\u2714", "\u2705"), True),
    **dict.fromkeys(("\u2717", "\u2718", "\u274c"), False),
    **dict.fromkeys(("yeah", "yep", "yup", "pass", "passed"), True),
    **dict.fromkeys(("nope", "nah", "fail", "failed"), False),
    **dict.fromkeys(
        ("\u662f", "\u5bf9", "\u6b63\u786e", "\u306f\u3044", "oui", "ja", "s\u00ed", "\u0434\u0430"), True
    ),
    **dict.fromkeys(
        ("\u5426", "\u4e0d\u662f", "\u9519\u8bef", "\u3044\u3044\u3048", "nein", "non", "\u043d\u0435\u0442"),
        False,
    ),
    **dict.fromkeys(("true", "yes", "y", "on", "t", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "f", "0"), False),
}
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_RANGE = re.compile(r"(?<![\d-])\d{1,4}\s?[-\u2013]\s?\d{1,4}(?!\s?[-\u2013]?\d)")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL_WORD = re.compile(
    rf"(?:the )?({'|'.join(_ORDINALS)})(?: (?:one|candidate|statement|passage|document|option))?"
)
_WORD_OF = re.compile(
    rf"({'|'.join(_NUMBER_WORDS)}) (?:points? |stars? )?(?:out )?of (?:a |the )?(?:possible )?"
    rf"({'|'.join(_NUMBER_WORDS)}|a hundred|one hundred|\d{{1,3}})(?: points?| stars?)?"
)
_DIGITS = re.compile(r"[0-9]+")
_ORDINAL = re.compile(r"^[^\w\n]{0,8}([0-9]{1,3})\s*[.):]\s+(?=.*[0-9])", re.MULTILINE)
_STARS = re.compile(r"\s*([\u2605\u2b50]\ufe0f?\s*){1,10}([\u2606]\s*){0,10}")
_MINUS = re.compile(r"[\u2212\u2013](?=[0-9])")
_NUMBERED = re.compile(
    r"(?:(?:passages?|documents?|docs?|ids?|numbers?|no|parts?|components?|and|then)\b|[^\w{}\"]|"
    r"[0-9]{1,4}\b)+",
    re.IGNORECASE,
)
BULLET = re.compile(r"\A(?:[-*\u2022]|\(?\d{1,2}[.):])\s+")
_NUMBER = re.compile(
    r"[^\w.+-]*(?:(?:passage|document|doc|id|number|no|part|component|score|grade|rating|points|about|"
    r"candidate|statement|option|sentence)\b[^\w+-]*)?"
    r"([-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?:\s*(?:/|out of|of)\s*([0-9]{1,6}))?\s*(?:%|percent|points?|"
    r"stars?)?"
    r"(?:\s(?:sure|certain|confident|confidence|likely))?\W*",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"(?:the\s+|my\s+)?(?:\w+\s+)?(?:answer|option|choice|action|verdict)\s*(?:is|:|=)?\s*", re.IGNORECASE
)
_LETTERED = re.compile(r"\W{0,4}[A-Z][_.):-]\s?")
NONE_SAID = re.compile(
    r"(?:none|no (?:\w+ ){0,2}(?:documents?|passages?|spans?|claims?|parts?|entit(?:y|ies)|words?|names?|"
    r"items?|questions?)"
    r"|there (?:are|is) (?:no|none|nothing)|nothing|not any)\b[^\n]{0,120}",
    re.IGNORECASE,
)
"""A sentence that says that a list has no items."""
_ALTERNATIVE = re.compile(r"[^\w\n]{0,4}(?:\b(?:and|or)\b|[/|,])[^\w\n]{0,4}")
MARKS = " \t\r\n.,;:!?()[]{}<>\"'`*_\u201c\u201d\u2018\u2019"


def loads(text: str) -> Any:
    """The JSON value that `text` is; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def python_value(text: str) -> Any:
    """The lists, dictionaries, texts and numbers that `text` is as Python writes them; None where it is not.

    Of a call, as in `Grade(points=70)`, its named arguments are a dictionary.
    """
    if len(text) > 20_000:
        return None
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _literal(node: ast.AST) -> Any:
    if isinstance(node, ast.Call) and not node.args and node.keywords:
        return {str(one.arg): _literal(one.value) for one in node.keywords if one.arg is not None}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        keys = [None if key is None else _literal(key) for key in node.keys]
        return {str(key): _literal(value) for key, value in zip(keys, node.values, strict=True)}
    return ast.literal_eval(node)


def fold(name: Any) -> str:
    """`name` without case, blanks, hyphens and underscores."""
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def bare(text: str) -> str:
    """`text` without case and the marks around it."""
    return text.strip(MARKS).casefold()


def is_text(schema: Mapping[str, Any]) -> bool:
    """Whether `schema` wants a text that may say anything."""
    return schema.get("type") == "string" and "enum" not in schema and "const" not in schema


def is_option(value: Any, options: Sequence[Any]) -> bool:
    """Whether `value` is one of `options`, of the same type."""
    return any(type(option) is type(value) and option == value for option in options)


def choose(value: Any, options: Sequence[Any]) -> Any:
    """The one of `options` that `value` means; `NO_MEANING` where it is not clear that it means one."""
    words = [option for option in options if isinstance(option, str)]
    numbers = [option for option in options if type(option) is int]
    if isinstance(value, bool):
        return next((word for word in words if FLAGS.get(word.casefold()) is value), NO_MEANING)
    if numbers and not words:
        number = number_in(value, max(numbers))
        if number is None:
            return NO_MEANING
        if 0 < number < 1 and max(numbers) == 100:
            number *= 100
        if not min(numbers) <= number <= max(numbers):
            return NO_MEANING
        near = sorted(numbers, key=lambda option: abs(option - number))
        between = len(near) > 1 and abs(near[0] - number) == abs(near[1] - number)
        return NO_MEANING if between and number != int(number) else near[0]
    if not isinstance(value, str):
        return NO_MEANING
    return _choose_word(value, words)


def _choose_word(text: str, words: Sequence[str]) -> Any:
    for spell in (bare, fold):
        spelling = spell(text)
        for option in words:
            if spelling and spell(option) == spelling:
                return option
    if bare(text) in FLAGS and (
        len(bare(text)) > 3 or {FLAGS.get(w.casefold()) for w in words} >= {True, False}
    ):
        return next((w for w in words if FLAGS.get(w.casefold()) is FLAGS[bare(text)]), NO_MEANING)
    lettered = _LETTERED.match(text) if all(len(word) > 2 for word in words) else None
    if lettered and (exact := [word for word in words if fold(word) == fold(text[lettered.end() :])]):
        return exact[0]
    if _lists_both(text, words):
        return "both"
    if lists_options(text, words):
        return NO_MEANING
    label = _LABELLED.match(text)
    for start in [text, *([text[label.end() :]] if label and label.end() else [])]:
        begun = [option for option in words if _begins(start.lstrip(MARKS + "-"), option)]
        if begun:
            return max(begun, key=len)
    return _same_word(bare(text), words)


def _lists_both(text: str, words: Sequence[str]) -> bool:
    """Whether `text` lists the two options of which a third one is "both"."""
    others = [word for word in words if word != "both"]
    if len(others) != 2 or len(words) != 3 or len(text) > 400:
        return False
    lines = [BULLET.sub("", line.strip()).strip("*`\"' ") for line in text.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = re.split(r"\s*(?:,|&|\+|\band\b)\s*", lines[0])
    begun = [
        word
        for line in lines
        for word in others
        if re.match(rf"{_as_word(word)}\W*(?:\(.*)?\Z", line, re.IGNORECASE)
    ]
    return len(lines) == 2 and sorted(begun) == sorted(others)


def lists_options(text: str, words: Sequence[str]) -> bool:
    """Whether `text` begins with several of the options and chooses none, as in "Yes and no"."""
    start = text.lstrip(MARKS + "-")
    for option in words:
        if not _begins(start, option):
            continue
        if _turns(start[len(option) :], option, words):
            return True
        more = _ALTERNATIVE.match(start[len(option) :])
        rest = start[len(option) + more.end() :] if more else ""
        others = [other for other in words if other != option and not _begins(option, other)]
        if any(
            _begins(rest, o) or (len(o) < 3 and re.match(rf"{re.escape(o)}\W*(?:and\b|or\b|,|$)", rest))
            for o in others
        ):
            return True
    lines = [line.lstrip(MARKS + "-") for line in text.splitlines() if line.strip()]
    begun = {option for line in lines for option in words if _begins(line, option)}
    return len(lines) > 1 and len(begun) > 1 and all(any(_begins(line, o) for o in words) for line in lines)


_SAME = {
    **dict.fromkeys(("wrong", "false", "not correct", "mistaken"), "incorrect"),
    **dict.fromkeys(("right", "true", "fully correct", "completely correct"), "correct"),
    **dict.fromkeys(("full", "complete", "completely", "full support", "supported"), "fully"),
    **dict.fromkeys(("unsupported", "not supported", "contradictory", "contradicted", "not at all"), "none"),
}
"""Options by words that mean the same."""

_WEAKER = word_set("""
    not no never without mostly partly almost nearly hardly or neither cannot yet t should must
    unclear unsure maybe perhaps possibly either whether depends
    """)


def _turns(rest: str, option: str, words: Sequence[str]) -> bool:
    """Whether `rest`, what follows yes or no, says the contrary too."""
    flag = FLAGS.get(option.casefold())
    turn = re.match(
        r"[^\n]{0,40}?\b(?:but|and|or|also|actually|however|wait)\b\W*(?:also |partly )?(yes|no)\b",
        rest,
        re.IGNORECASE,
    )
    return flag is not None and turn is not None and FLAGS[turn[1].casefold()] is not flag


def _same_word(spoken: str, words: Sequence[str]) -> Any:
    """The option that `spoken` means in other words, or the only one that stands in a few words."""
    meant = _SAME.get(spoken)
    for word in words:
        if word.casefold() == meant:
            return word
    parts = re.findall(r"[^\W_]+", spoken)
    if 1 < len(parts) <= 5 and not _WEAKER & set(parts):
        named = [word for word in words if len(word) > 2 and re.search(_as_word(word), spoken, re.IGNORECASE)]
        if len(named) == 1:
            return named[0]
    return _related(spoken, words)


def _as_word(option: str) -> str:
    parts = [re.escape(part) for part in re.split(r"[^A-Za-z0-9]+", option) if part]
    return rf"(?<!\w){'[^a-z0-9]+'.join(parts)}(?!\w)"


def _related(spoken: str, words: Sequence[str]) -> Any:
    """The one option that a word or two are another form of, as "partially" of "partially correct"."""
    parts = re.findall(r"[^\W\d_]+", spoken)
    if not 0 < len(parts) <= 2:
        no = parts[:1] == ["no"] and len(parts) < 8 and "no" not in map(str.casefold, words)
        return next((word for word in words if no and word.casefold() == "none"), NO_MEANING)
    if parts[0] in ("no", "not"):
        none = parts[0] == "no" and "no" not in map(str.casefold, words)
        return next((word for word in words if none and word.casefold() == "none"), NO_MEANING)
    related = [word for word in words if len(word) > 3 and is_form_of(parts[0], re.split(r"[\W_]", word)[0])]
    return related[0] if len(related) == 1 else NO_MEANING


def is_form_of(word: str, other: str) -> bool:
    """Whether both are forms of one word, as far as their beginnings tell: "rewriting" and "rewrite"."""
    word, other = word.casefold(), other.casefold()
    same = 0
    while same < min(len(word), len(other)) and word[same] == other[same]:
        same += 1
    return same >= max(4, 0.75 * min(len(word), len(other))) and len(word) - same < 6


def _begins(text: str, option: str) -> bool:
    """Whether `text` begins with `option` as a word of its own."""
    pattern = r"[\W_]+".join(re.escape(part) for part in re.split(r"[\W_]+", option) if part)
    end = r"(?=\W|$)" if len(option) > 2 else r"(?=[^\w\s'\u2019-]|\s+[^\w\s'\u2019]|\s*$)"
    return bool(pattern) and re.match(pattern + end, text, re.IGNORECASE) is not None


def number_in(value: Any, most: Any = None) -> Any:
    """The number that `value` is or spells; None where it is none. Of a fraction `most` is the whole."""
    if isinstance(value, (int, float)):
        return value if not isinstance(value, bool) and math.isfinite(value) else None
    if not isinstance(value, str) or len(value) >= 200:
        return None
    if bare(value) in _NUMBER_WORDS:
        return _NUMBER_WORDS.index(bare(value))
    if bare(value) in ("one hundred", "a hundred"):
        return 100
    whole = _WORD_OF.fullmatch(bare(value))
    if whole is not None and most is not None and number_in(whole[2]) == most:
        return number_in(whole[1])
    ordinal = _ORDINAL_WORD.fullmatch(bare(value))
    if ordinal:
        return _ORDINALS.index(ordinal[1]) + 1
    if _STARS.fullmatch(value):
        return value.count("\u2605") + value.count("\u2b50")
    spelled = _NUMBER.fullmatch(_MINUS.sub("-", value))
    if spelled is None:
        return None
    if spelled[2] is not None and (most is None or int(spelled[2]) != most):
        if most is None and " of " in value and int(spelled[1].split(".")[0]) <= int(spelled[2]):
            return int(spelled[1]) if spelled[1].isdigit() else None
        tenths = most == 100 and spelled[2] == "10" and 0 <= float(spelled[1]) <= 10
        return nearest_integer(float(spelled[1]) * 10, 0, 100) if tenths else None
    return float(spelled[1]) if "." in spelled[1] else int(spelled[1])


def numbers_in(text: str) -> list[int]:
    """The integers that `text` lists, with nothing but marks and words such as "passage" around them.

    The numbers of a numbered list, 1 and so on before the numbers that it lists, are left out.
    """
    if not _NUMBERED.fullmatch(text):
        return []
    if _RANGE.search(text):
        return []
    places = [int(rank) for rank in _ORDINAL.findall(text)]
    lines = [line for line in text.splitlines() if _DIGITS.search(line)]
    if len(places) == len(lines) > 1 and places == list(range(1, len(lines) + 1)):
        text = _ORDINAL.sub("", text)
    return [int(digits) for digits in _DIGITS.findall(text)]


def nearest_integer(number: Any, low: Any, high: Any) -> int:
    """The integer nearest to `number`; of a share, on a scale up to 100, its percentage."""
    if 0 < abs(number) < 1 and high == 100 and low in (0, -100):
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
