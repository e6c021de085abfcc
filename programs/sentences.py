"""Finds where the sentences of a text end, without a language model.

A sentence ends at an end mark before white space or the end of the text, or at the end of a line. A full stop
after an abbreviation, an initial or a leading number ends no sentence, nor does one before a small letter.
After an ambiguous one, such as `U.S.`, the sentence continues: half a sentence is worse than two. Chinese and
Japanese marks need no white space behind them.
"""

from __future__ import annotations

import re

_END = re.compile(
    r"(?:[.!?\u2026]+[\"'\u201d\u2019)\]]*(?=\s|$)|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*|\n)"
)
_TITLES = (
    "mr mrs ms dr prof st mt ft jr sr vs al inc ltd co corp gen col lt sgt capt cmdr maj sen rep gov rev hon "
    "pres ave blvd rd etc eg ie est dept univ"
)
_BEFORE_NUMBERS = "no nos vol fig pp op ch art ca cf approx jan feb mar apr jun jul aug sep sept oct nov dec"
_NEVER_LAST = frozenset(_TITLES.split())
_LAST_UNLESS_NUMBER = frozenset(_BEFORE_NUMBERS.split())
_WORD = re.compile(r"[^\s(\[\"'\u201c\u2018]*$")
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")


def first_sentence(text: str) -> tuple[str, bool]:
    """Returns the first sentence of `text`, without white space around it, and whether it is complete."""
    text = text.strip()
    for mark in _END.finditer(text):
        if mark.group() == "\n" or _ends(text, mark):
            return text[: mark.end()].rstrip(), True
    return text, False


def all_sentences(text: str) -> list[str]:
    """Returns the sentences of `text` in order, without white space around them; [] for a blank text."""
    rest, sentences = text.strip(), list[str]()
    while rest:
        first, _ = first_sentence(rest)
        sentences.append(first)
        rest = rest[len(first) :].lstrip()
    return sentences


def _ends(text: str, mark: re.Match[str]) -> bool:
    """Returns whether the mark ends a sentence; a full stop may have another meaning."""
    if not mark.group().startswith((".", "\u2026")):
        return True
    before = _WORD.search(text[: mark.start()])
    word = before.group().casefold() if before else ""
    after = text[mark.end() :].lstrip()[:1]
    if after.islower() or (word.isdigit() and len(word) == mark.start()):
        return False
    if mark.group().startswith(("..", "\u2026")):
        return True
    if word in _LAST_UNLESS_NUMBER:
        return not after.isdigit()
    return word not in _NEVER_LAST and not _LETTERS.fullmatch(word)
