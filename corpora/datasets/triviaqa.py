"""TriviaQA: trivia with many spellings of each answer, unfiltered or for reading comprehension.

The passages are in other files of the official archive and are not read. The official test files have no
answers and cannot be read.
"""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, read_part
from ragc.corpora.files.row import FileRow, kind
from ragc.records import Question

CARD = Card(
    id="triviaqa",
    about="trivia questions with all spellings of their answers; no passages",
    file="unfiltered-web-train.json, unfiltered-web-dev.json, or a train or dev file of the folder qa of "
    "triviaqa-rc",
    licence="Apache-2.0",
    home="https://nlp.cs.washington.edu/triviaqa",
    citation="Mandar Joshi, Eunsol Choi, Daniel S. Weld, Luke Zettlemoyer. TriviaQA: A Large Scale Distantly "
    "Supervised Challenge Dataset for Reading Comprehension. ACL 2017.",
    splits={
        "unfiltered_train": 87_622,
        "unfiltered_dev": 11_313,
        "wikipedia_train": 61_888,
        "wikipedia_dev": 7_993,
        "web_train": 76_496,
        "web_dev": 9_951,
    },
    metrics=("em", "f1", "acc", "slim_em", "hit1"),
    under="Data",
)

SPELLINGS = ("Aliases", "NormalizedAliases", "HumanAnswers")


def read(row: FileRow) -> Item:
    """Returns the question of `row`; its answers are `Value`, then the `SPELLINGS`, without blanks.

    `extra` has `QuestionSource`, `EntityPages` and the answer's `Type`, if present.
    """
    extra = {name: row.values.get(name) for name in ("QuestionSource", "EntityPages")}
    answers: tuple[str, ...] | None = ()
    if "Answer" in row.values:
        answers = read_part(row, "Answer", row.values["Answer"], _answers)
        extra["Type"] = row.values["Answer"].get("Type") if answers else None
    else:
        row.problems.append("`Answer` is missing.")
    question = Question(
        id=row.text("QuestionId"),
        question=row.text("Question"),
        answers=answers or (),
        extra={name: value for name, value in extra.items() if value is not None},
    )
    return question, ()


def _answers(answer: FileRow) -> tuple[str, ...]:
    """Returns all spellings of the answer, without duplicates."""
    spelled = [text for name in SPELLINGS for text in _spellings(answer, name)]
    return tuple(dict.fromkeys([answer.text("Value"), *spelled]))


def _spellings(answer: FileRow, name: str) -> list[str]:
    """Returns the strings of the list field `name`, without blanks."""
    texts = []
    for at, text in answer.enumerate_items(answer.items(name)):
        if not isinstance(text, str):
            answer.problems.append(f"`{name}[{at}]` is {kind(text)}, a string is needed")
        elif text.strip():
            texts.append(text)
    return texts
