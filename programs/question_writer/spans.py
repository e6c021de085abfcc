"""Possible answers in a sentence: names, numbers, dates and quoted titles, without a model of the language.

A call that writes a question chooses its answer among them by its schema, so that even a small model names
one that stands in the passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragc.corpora.sources.terms import STOP_WORDS
from ragc.metrics.short_answer import normalise

MAX_SPANS = 8
"""The most possible answers of a sentence, the first ones."""

_QUOTED = re.compile(r"[\"\u201c\u201e]([^\"\u201c\u201d\u201e]{2,60})[\"\u201d\u201c]")
_NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,2}(?:st|nd|rd|th)?\.?\s[^\W\d_a-z][a-z]+\s\d{4}"  # 23 April 1420
    r"|\d+(?:st|nd|rd|th)\s[a-z]{1,12}"  # 19th century
    r"|[$\u20ac\u00a3]?\d(?:[\d.,:/\u2013-]*\d)?(?:\s?(?:%|\u20ac|\u00b0C|[a-z]{1,12}))?)(?![\w])"
)
_UNITS = frozenset(
    ("mm", "cm", "m", "km", "mi", "ft", "in", "kg", "g", "mg", "lb", "mph", "kb", "mb", "gb", "am", "pm")
)
_WORD = re.compile(r"\s([a-z]+)(?![\w-])")
_BARE = re.compile(r"\d[\d.,:]*s?")
_AND_NUMBER = re.compile(r",?\s(?:and|or|to)\s(?:in\s|from\s)?\d|,\s\d{4}\b")
_NUMBER_AND = re.compile(r"\d[\w.]*,?\s(?:and|or|to)\s(?:in\s|from\s)?$|\b\d{4},\s$")
_PART_OF = re.compile(r"\b(?:early|late|mid)[-\s]$", re.IGNORECASE)
_RANGE = re.compile(r"\b(\d{4})\s?[\u2013-]\s?\d{2,4}$")
_WORDS = re.compile(r"[^\W\d_]+")
YEAR = re.compile(r"\b\d{4}\b")
"""A year of four digits, alone or in a date."""
_TIME = re.compile(r"\b\d{4}s?\b|\bcentury\b|\bdecade\b")
_UNIT_ONLY = re.compile(r"[\d.,:/\u2013\s-]|(?<=\d)(?:st|nd|rd|th)\b")
_OWNER = re.compile(r"['\u2019]s?(?:\s\d[\w.]*)?$")
_CAPITAL = r"[^\W\d_a-z][\w'\u2019.&-]*"
_JOINED = r"(?:\s(?:of|the|de|la|von|van|der|&|for)){0,2}"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:{_JOINED}\s(?:{_CAPITAL}|\d[\w.]*))|,\s\d{{4}})*")
_COMMAS = frozenset((",", "and", "or", "&", ", and", ", or"))
_OPENERS = """
a an the he she it they this that these those in on at of for by from to his her its their there when where
after before during since while as if but and or however also both one each most some we you i no not
"""
_NEVER_FIRST = frozenset(_OPENERS.split())
_CONNECTING = """
about above across against along among around below between beyond down near off out over past per than
through throughout under until up upon via within without together
"""
_NEVER_COUNTED = _NEVER_FIRST | STOP_WORDS | frozenset(_CONNECTING.split())
_NEVER_LAST = re.compile(
    r"(?<=\d)\s(?:and|or|as|was|were|is|to|in|on|at|by|with|it|he|she|they|the)$"
    r"|(?<=\b1[0-9]\d\d)\s[a-z]+$|(?<=\b20\d\d)\s[a-z]+$"  # a year has no unit
)


def spans(sentence: str, title: str = "") -> tuple[str, ...]:
    """Returns the possible answers in `sentence`, in order, without those that the `title` gives or that
    abbreviate it, and without names in lists.
    """
    listed = _listed(sentence, list(_NAME.finditer(sentence)))
    known, options = normalise(title), list[str]()
    for start, text in _mentions(sentence):
        plain = normalise(text)
        if start in listed or len(text) > 60 or plain in known or any(plain in normalise(o) for o in options):
            continue
        if _RANGE.search(text) or abbreviates(text, title) or _one_of_several(sentence, text):
            continue
        options.append(text)
    whole = [one for one in options if not any(one != o and normalise(one) in normalise(o) for o in options)]
    return tuple(whole[:MAX_SPANS])


def sole_spans(sentence: str, title: str = "", around: str = "") -> tuple[str, ...]:
    """Returns the possible answers in `sentence` that are the only one of their kind in it and in `around`.

    Of two names, two years or two numbers of the same unit a small model takes the wrong one, and a question
    often fits both. In languages that write all nouns with a capital only numbers remain.
    """
    texts = [text for passage in (sentence, around) for _, text in _mentions(passage)]
    texts += YEAR.findall(f"{sentence} {around}")
    known = normalise(title)
    others = [(_kind(text), normalise(text)) for text in texts if normalise(text) not in known]

    def is_sole(option: str) -> bool:
        kind, plain = _kind(option), f" {normalise(option)} "
        rivals = (f" {other} " for other_kind, other in others if other_kind == kind)
        return all(other in plain or plain in other for other in rivals)

    return tuple(option for option in spans(sentence, title) if is_sole(option))


def names_something(sentence: str, title: str = "") -> bool:
    """Returns whether `sentence` has a name, number, date or quoted title beside those of the `title`."""
    known = normalise(title)
    return any(normalise(text) not in known for _, text in _mentions(sentence))


def _mentions(sentence: str) -> list[tuple[int, str]]:
    """Returns the names, numbers, dates and quoted titles in `sentence` with their starts, in order."""
    mentions = [(match.start(1), match[1].strip(" ,.;")) for match in _QUOTED.finditer(sentence)]
    mentions += [
        (match.start(), _with_unit(match, sentence).strip(" ,.;:/-")) for match in _NUMBER.finditer(sentence)
    ]
    mentions += [
        (match.start(), _name(match[0])) for match in _NAME.finditer(sentence) if not _only_opens(match)
    ]
    return sorted((one for one in mentions if normalise(one[1])), key=lambda one: (one[0], -len(one[1])))


def _kind(text: str) -> str:
    """Returns "time" for a year, a date or a century, the unit of another number, and "name" for the rest."""
    if _TIME.search(text):
        return "time"
    return _UNIT_ONLY.sub("", text) if any(char.isdigit() for char in text) else "name"


def _listed(sentence: str, names: Sequence[re.Match[str]]) -> set[int]:
    """Returns the starts of `names` in lists such as "A, B and C": one of several is no sure answer.

    Names with commas alone between them, such as a town and its country, are no list.
    """
    chains: list[list[re.Match[str]]] = []
    for name in names:
        gap = sentence[chains[-1][-1].end() : name.start()].strip() if chains else "none"
        if gap in _COMMAS:
            chains[-1].append(name)
        else:
            chains.append([name])
    starts = set[int]()
    for chain in chains:
        text = sentence[chain[0].start() : chain[-1].end()]
        joined = len(chain) > 1 and re.search(r"\s(?:and|or|&)\s", text) is not None
        starts |= {name.start() for name in chain} if joined else set()
    return starts


def _one_of_several(sentence: str, text: str) -> bool:
    """Returns whether a bare number stands in a row such as "1938 and 1946", at an end of a span, or for a
    part of its years, such as "late 1990s".
    """
    if not _BARE.fullmatch(text):
        return False
    before, _, after = sentence.partition(text)
    return bool(_AND_NUMBER.match(after) or _NUMBER_AND.search(before) or _PART_OF.search(before))


def abbreviates(text: str, title: str) -> bool:
    """Returns whether `text` is the first letters of the title's words, such as IPAF."""
    words = _WORDS.findall(title)
    short = [word for word in words if word.casefold() not in STOP_WORDS]
    return len(text) > 1 and text in ("".join(word[0].upper() for word in some) for some in (words, short))


def _with_unit(number: re.Match[str], sentence: str) -> str:
    """Returns a number with the words of what it counts: one or two, or none where there are more."""
    text = _NEVER_LAST.sub("", number[0])
    after = _WORD.match(sentence, number.end())
    unit = text.rpartition(" ")[2] if " " in text else ""
    if unit in _NEVER_COUNTED and unit not in _UNITS:
        return text.rpartition(" ")[0]
    if (
        text != number[0]
        or not unit.islower()
        or unit in _UNITS
        or after is None
        or after[1] in _NEVER_COUNTED
    ):
        return text
    third = _WORD.match(sentence, after.end())
    if third is None or third[1] in _NEVER_COUNTED:
        return f"{text} {after[1]}"
    return text.partition(" ")[0]


def _only_opens(name: re.Match[str]) -> bool:
    """Returns whether a name is one word at the start of its sentence, where any word has a capital."""
    return name.start() == 0 and len(name[0].split()) == 1


def _name(text: str) -> str:
    """Returns a name without words in front of it that only begin a sentence."""
    words = text.strip(" ,.;:").split()
    while words and words[0].casefold() in _NEVER_FIRST:
        words = words[1:]
    return _OWNER.sub("", " ".join(words))
