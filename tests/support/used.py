"""The record of used questions, as tests fill and read it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing

from ragc.store.used_questions import ShownScores, TestUse, database, opened, question_digest


def count_use(texts: Iterable[str], programs: Iterable[str]) -> TestUse:
    """Counts a test use of the questions with these `texts` by `programs` with one answer to each."""
    questions = frozenset(map(question_digest, texts))
    shown = (frozenset((question, program) for question in questions) for program in programs)
    return ShownScores(tuple(shown)).count()


def uses_counted() -> int:
    """The number of test uses in the record."""
    with opened(write=False) as record:
        return record.counts()[0]


def recorded() -> list[tuple[str, str, int]]:
    """Every use in the record: its role, its work, and the number of its questions."""
    with closing(sqlite3.connect(database())) as rows:
        return rows.execute(
            """SELECT role, work, (SELECT count(*) FROM members WHERE members.questions = uses.questions)
            FROM uses ORDER BY number"""
        ).fetchall()


def searched_questions() -> set[str]:
    """The digests of the questions that searches used as train or dev."""
    with closing(sqlite3.connect(database())) as rows:
        found = rows.execute("SELECT question FROM members JOIN searches USING (questions)")
        return {question for (question,) in found}
