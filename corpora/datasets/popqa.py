"""PopQA: questions about popular and rare entities, generated from Wikidata.

The official file is a table without passages; JSON and JSON lines derived from it may add `paragraphs`.
"""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item
from ragc.corpora.datasets.hotpotqa import read_nonblank
from ragc.corpora.datasets.musique import paragraphs
from ragc.corpora.datasets.wikimultihop import spell_out
from ragc.corpora.files.row import FileRow, kind
from ragc.records import Question

CARD = Card(
    id="popqa",
    about="questions about one property of an entity, from the obscure to the well known; few have passages",
    file="popQA.tsv",
    licence="MIT",
    home="https://github.com/AlexTMallen/adaptive-retrieval",
    citation="Alex Mallen, Akari Asai, Victor Zhong, Rajarshi Das, Daniel Khashabi, Hannaneh Hajishirzi. "
    "When Not to Trust Language Models: Investigating Effectiveness of Parametric and Non-Parametric "
    "Memories. ACL 2023.",
    splits={"test": 14_267},
    metrics=("popqa_match", "acc"),
)

COUNTS = ("s_pop", "o_pop")
MAX_COUNT_DIGITS = 18
"""The most digits of a count in a table."""

NAMES = ("subj", "prop", "obj", "s_uri", "o_uri", "s_wiki_title", "o_wiki_title")


def read(row: FileRow) -> Item:
    """Returns the question of `row` and its passages, if it has `paragraphs`; `gold_ids` are the supporting
    ones.

    `extra` has the present fields of `NAMES` and `COUNTS`, monthly page views as integers.
    """
    spell_out(row, "possible_answers")
    context_ids, gold_ids, passages = paragraphs(row, CARD.id, text="text", needed=False)
    question = Question(
        id=row.text("id", number=True),
        question=row.text("question"),
        answers=tuple(dict.fromkeys(row.texts("possible_answers", needed=True))),
        gold_ids=gold_ids,
        context_ids=context_ids,
        extra=read_nonblank(row, *NAMES) | {name: _count(row, name) for name in COUNTS if name in row.values},
    )
    return question, passages


def _count(row: FileRow, name: str) -> int:
    """Returns the integer in the field `name`; in a table it is text."""
    value = row.values[name]
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= MAX_COUNT_DIGITS:
        return int(value)
    if type(value) is not int:
        row.problems.append(f"`{name}` is {kind(value)}, a whole number is needed")
        return 0
    return value
