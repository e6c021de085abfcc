"""Turns queries and passages of any script into the terms of keyword search.

    "The CAFÉ in Seoul"     the café in seoul
    "北京大学"               北 京 大 学 北京 京大 大学

Words are runs of letters, their marks and digits. Scripts that put no spaces between words (Chinese,
Japanese, Thai, Lao, Khmer, Burmese), or join particles to them (Korean), give single characters and pairs of
neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from ragc.records import Passage

ANALYZER = 2
"""Increased whenever the same text would give other terms."""

MAX_CHARACTERS = 20_000
"""Characters of a query that are read; what follows is ignored."""

# Lucene's English list, then common words of questions.
_STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
been did do does from had has have he her his how i its she were what when where which who whom whose why you
"""
STOP_WORDS = frozenset(_STOP.split())

_MARKS = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x3100), *range(0xA66F, 0xABEE)))
    if unicodedata.category(mark).startswith("M")
)
_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_PAIRED_RUN = re.compile(f"[{_PAIRED}][{_PAIRED}{_MARKS}]*")
_CHARACTER = re.compile(rf"(?=\w)[{_PAIRED}][{_MARKS}]*")
_WORD = re.compile(rf"[^\W{_PAIRED}]+(?:[{_MARKS}]+[^\W{_PAIRED}]*)*")
_ASCII_WORD = re.compile(r"\w+")

# Raised digits are notes and powers, so they end a word; writers of Arabic and Persian interchange these
# letters with others.
_REPLACED = dict(zip("¹²³⁰⁴⁵⁶⁷⁸⁹أإآىةیک", " " * 10 + "ااايهيك", strict=True))
# Invisible characters, and marks and strokes that writers of Arabic and Hebrew may leave out.
_OMITTED = (
    "\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff\u0640\u064b-\u065f\u0670\u0591-\u05bd\u05bf-\u05c7"
)
_CHANGED = re.compile(f"[{_OMITTED}{''.join(_REPLACED)}]")


def words(text: str) -> list[str]:
    """Returns the words of `text` without case, then the single characters of scripts that use no spaces."""
    return [term for run in _runs(text) for term in run]


def analyze(text: str) -> list[str]:
    """Returns the terms of `text`: its words, then characters and pairs of neighbours where scripts have no
    spaces.
    """
    spaced, *runs = _runs(text)
    return spaced + [term for run in runs for term in (*run, *map("".join, pairwise(run)))]


def _runs(text: str) -> Iterator[list[str]]:
    """Yields all words of `text`, then the characters of each run without spaces."""
    if text.isascii():
        yield _ASCII_WORD.findall(text.lower())
        return
    text = _CHANGED.sub(lambda match: _REPLACED.get(match[0], ""), text)
    text = (
        unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")
    )  # what the Turkish capital becomes
    yield _WORD.findall(text)
    yield from map(_CHARACTER.findall, _PAIRED_RUN.findall(text))


def query_terms(query: str) -> list[str]:
    """Returns the terms of a query without stop words; with them if there are no others."""
    terms = analyze(query[:MAX_CHARACTERS])
    return [term for term in terms if term not in STOP_WORDS] or terms


def passage_terms(passage: Passage, title_boost: int = 1) -> list[str]:
    """Returns the index terms of a passage: those of its title `title_boost` times, those of its text."""
    return analyze(passage.title) * (title_boost - 1) + analyze(f"{passage.title} {passage.text}")
