"""`bm25`: keyword search in memory, with the scores of Lucene's BM25.

For a query of terms t (a repeated term counts each time) and a passage of `length` terms

    score = sum over t of  ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean length))

The defaults k1 = 0.9 and b = 0.4 are pyserini's. Differs from Lucene: lengths are exact, Lucene rounds
them to one byte; words are not stemmed; stop words are indexed and dropped from queries only, so that
a query made of nothing else still finds something.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from ragc.corpora import chunking
from ragc.corpora.readers import content_fingerprint
from ragc.errors import DataError, UsageError
from ragc.fingerprint import digest
from ragc.records import Hit, Passage

K1, B = 0.9, 0.4

ANALYZER = 1
"""Raised whenever the same text would give other terms."""

PLACES = 9
"""Scores are rounded to so many decimals: the order of the terms of a query must not break a tie."""

STOP_WORDS = frozenset(
    # Lucene's English list, then what questions are made of.
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these
    they this to was will with
    been did do does from had has have he her his how i its she were what when where which who whom whose why
    you""".split()
)

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


def indexed(passage: Passage) -> list[str]:
    """The terms a passage is found by: those of its title, then those of its text."""
    return analyze(f"{passage.title} {passage.text}")


class Bm25Source:
    """Keyword search over `passages`, cut to `chunk_size` tokens when that is set.

    Cutting and indexing happen at the first search or sample, in a thread. Raises DataError when there is
    no passage or an id appears twice, UsageError for a setting out of range.
    """

    kind = "bm25"

    def __init__(
        self,
        passages: Iterable[Passage],
        *,
        k1: float = K1,
        b: float = B,
        chunk_size: int | None = None,
        overlap: float = 0.0,
    ) -> None:
        check_settings(k1, b)
        if chunk_size is not None:
            chunking.check(chunk_size, overlap)
        self.k1, self.b = k1, b
        self.fingerprint = ""
        self._whole = tuple(passages)
        check_corpus(self._whole)
        self._family = _Family(content_fingerprint(self._whole))
        self._settle(chunk_size, overlap)

    def _settle(self, chunk_size: int | None, overlap: float) -> None:
        self.chunk_size, self.overlap = chunk_size, overlap if chunk_size else 0.0
        self._lock = Lock()
        self._index: _Index | None = None
        settings = [self.kind, self.k1, self.b, ANALYZER, chunk_size, self.overlap, chunking.VERSION]
        self.fingerprint = digest([self._family.content, *settings])

    def __deepcopy__(self, memo: object) -> Bm25Source:
        return self
