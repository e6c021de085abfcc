"""Turns queries and passages into the terms of keyword search."""

from __future__ import annotations

import re
import unicodedata

from ragc.records import Passage

ANALYZER = 1
"""Increased whenever the same text would give other terms."""

# Lucene's English list, then common words of questions.
_STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
been did do does from had has have he her his how i its she were what when where which who whom whose why you
"""
STOP_WORDS = frozenset(_STOP.split())

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TERM = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


def analyze(text: str) -> list[str]:
    """Returns the terms of `text` in order: lower-case words, and single Chinese and Japanese characters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _TERM.findall(text.lower())


def query_terms(query: str) -> list[str]:
    """Returns the terms of a query without stop words; with them if there are no others."""
    terms = analyze(query)
    return [term for term in terms if term not in STOP_WORDS] or terms


def passage_terms(passage: Passage, title_boost: int = 1) -> list[str]:
    """Returns the index terms of a passage: those of its title `title_boost` times, those of its text."""
    titles = analyze(passage.title) * (title_boost - 1) if title_boost > 1 else []
    return titles + analyze(f"{passage.title} {passage.text}")
