"""The terms that keyword search finds passages by."""

from __future__ import annotations

import re
import unicodedata

from ragc.records import Passage

ANALYZER = 1
"""Raised whenever the same text would give other terms."""

# Lucene's English list, then what questions are made of.
_STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
been did do does from had has have he her his how i its she were what when where which who whom whose why you
"""
STOP_WORDS = frozenset(_STOP.split())

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TERM = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


def analyze(text: str) -> list[str]:
    """The terms of `text` in order: words in lower case; Chinese and Japanese characters one by one."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _TERM.findall(text.lower())


def query_terms(query: str) -> list[str]:
    """The terms of a query without its stop words; with them when there is nothing else."""
    terms = analyze(query)
    return [term for term in terms if term not in STOP_WORDS] or terms


def passage_terms(passage: Passage, title_boost: int = 1) -> list[str]:
    """The terms a passage is found by: those of its title, `title_boost` times, then those of its text."""
    titles = analyze(passage.title) * (title_boost - 1) if title_boost > 1 else []
    return titles + analyze(f"{passage.title} {passage.text}")
