"""Questions that people asked: a log with or without answers, and with thumbs up or down.

An answer is a gold one where there is no column of thumbs, or where the thumb is up. An answer with another
thumb, or none, is the reply of some system that nobody has vouched for: it is kept as `reply`, not as gold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.corpora.files.row import FileRow
from ragc.corpora.files.splits import normalise
from ragc.corpora.files.values import as_list, as_text, is_no_answer, is_nothing
from ragc.errors import DataError, UsageError

QUESTION_COLUMNS = ("question", "query", "input", "prompt", "frage")
ANSWER_COLUMNS = (
    "answers", "answer", "gold", "expected", "output", "reference", "response", "reply", "antwort",
)  # fmt: skip
THUMB_COLUMNS = ("thumbs", "thumb", "feedback", "vote", "liked", "like")

_UP_WORDS = """
up 1 +1 yes true good positive like liked thumbs_up thumbsup thumbs-up \U0001f44d ja gut
"""
_DOWN_WORDS = """
down 0 -1 no false bad negative dislike disliked thumbs_down thumbsdown thumbs-down \U0001f44e nein schlecht
"""
_UP, _DOWN = frozenset(_UP_WORDS.split()), frozenset(_DOWN_WORDS.split())


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a log; "" for one that it lacks."""

    question: str
    answers: str
    thumbs: str
    id: str


def columns_of(path: Path, names: Mapping[str, str]) -> Columns:
    """Returns the columns among `names`, of casefolded names to written ones. Raises UsageError without
    questions.
    """

    def first(known: tuple[str, ...]) -> str:
        return next((names[name] for name in known if name in names), "")

    columns = Columns(first(QUESTION_COLUMNS), first(ANSWER_COLUMNS), first(THUMB_COLUMNS), first(("id",)))
    if not columns.question:
        raise UsageError(
            f"The questions in {path} have no column 'question', only {', '.join(names.values())}. "
            "Rename the column, or write the recipe's table [data.fields] by hand."
        )
    return columns


def thumb(value: object) -> bool | None:
    """Returns whether a thumb is up; None for no thumb. Raises ValueError for a value that is none."""
    if is_nothing(value):
        return None
    text = ("1" if value else "0") if isinstance(value, bool) else str(as_text(value) or "")
    plain = text.strip().casefold().replace(" ", "_")
    if plain in _UP:
        return True
    if plain in _DOWN:
        return False
    if not plain:
        return None
    raise ValueError(text.strip())


def read_log(path: Path, columns: Columns, file_rows: Iterable[FileRow]) -> list[dict[str, Any]]:
    """Returns one row a question of `file_rows`, those of the file `path`: `id`, `question`, `answers`
    (perhaps none), `asked` (how often), perhaps `reply`.

    Questions that differ in case and punctuation only are one. Raises DataError with every value in the
    column of thumbs that is none.
    """
    questions: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for row in file_rows:
        problems += [f"{row.location}: {problem}" for problem in row.problems]
        text = str(as_text(row.values.get(columns.question)) or "").strip()
        if row.problems or not text:
            continue
        try:
            up = thumb(row.values.get(columns.thumbs)) if columns.thumbs else True
        except ValueError as error:
            problems.append(
                f"{row.location}: `{columns.thumbs}` is {str(error)!r}, no thumb; write up or down"
            )
            continue
        known = questions.setdefault(normalise(text), _new(text, row.values, columns))
        known["asked"] += 1
        answers = answers_in(row.values.get(columns.answers)) if columns.answers else []
        if up:
            known["answers"] += [answer for answer in answers if answer not in known["answers"]]
        elif answers:
            known["reply"] = answers[0]
            known["thumb"] = "none" if up is None else "down"
    if problems:
        raise DataError(str(path), problems)
    return list(questions.values())


def _new(text: str, values: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    own = as_text(values.get(columns.id)) if columns.id else ""
    name = own or f"a-{hashlib.sha256(normalise(text).encode('utf-8', 'replace')).hexdigest()[:12]}"
    return {"id": name, "question": text, "answers": [], "gold_ids": [], "kind": "asked", "asked": 0}


def answers_in(value: object) -> list[str]:
    """Returns the answers in a cell that say something."""
    texts = (as_text(item) for item in as_list(value, cells=True))
    return [text.strip() for text in texts if text and not is_no_answer(text)]
