"""Possible answers in a sentence: names, numbers, dates and quoted titles, without a model of the language.

A call that writes a question chooses its answer among them by its schema, so that even a small model names
one that stands in the passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragc.metrics.short_answer import normalise

MAX_SPANS = 8
"""The most possible answers of a sentence, the first ones."""

_QUOTED = re.compile(r"[\"\u201c\u201e]([^\"\u201c\u201d\u201e]{2,60})[\"\u201d\u201c]")
_NUMBER = re.compile(
    r"(?<![\w.,])[$\u20ac\u00a3]?\d[\d.,:/\u2013-]*(?:\s?(?:%|\u20ac|\u00b0C|[a-z]{1,12}))?(?![\w])"
)
_CAPITAL = r"[^\W\d_a-z][\w'\u2019.&-]*"
_JOINED = r"(?:\s(?:of|the|de|la|von|van|der|and|&|for)){0,2}"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:{_JOINED}\s(?:{_CAPITAL}|\d[\w.]*))|,\s\d{{4}})*")
_COMMAS = frozenset((",", "and", "or", "&", ", and", ", or"))
_OPENERS = """
a an the he she it they this that these those in on at of for by from to his her its their there when where
after before during since while as if but and or however also both one each most some we you i no not
"""
_NEVER_FIRST = frozenset(_OPENERS.split())
_NEVER_LAST = re.compile(
    r"(?<=\d)\s(?:and|or|as|was|were|is|to|in|on|at|by|with|it|he|she|they|the)$"
    r"|(?<=\b1[0-9]\d\d)\s[a-z]+$|(?<=\b20\d\d)\s[a-z]+$"  # a year has no unit
)


def spans(sentence: str, title: str = "") -> tuple[str, ...]:
    """Returns the possible answers in `sentence`, in order, without those that the `title` gives."""
    matches = [(match.start(1), match[1].strip(" ,.;")) for match in _QUOTED.finditer(sentence)]
    matches += [
        (match.start(), _NEVER_LAST.sub("", match[0].strip(" ,.;:/-")))
        for match in _NUMBER.finditer(sentence)
    ]
    names = list(_NAME.finditer(sentence))
    listed = _listed(sentence, names)
    matches += [(match.start(), _name(match[0])) for match in names if match.start() not in listed]
    known, options = normalise(title), list[str]()
    for _, text in sorted(matches, key=lambda pair: (pair[0], -len(pair[1]))):
        plain = normalise(text)
        if not plain or len(text) > 60 or plain in known or any(plain in normalise(o) for o in options):
            continue
        options.append(text)
    return tuple(options[:MAX_SPANS])


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


def _name(text: str) -> str:
    """Returns a name without words in front of it that only begin a sentence."""
    words = text.strip(" ,.;:").split()
    while words and words[0].casefold() in _NEVER_FIRST:
        words = words[1:]
    return " ".join(words)
