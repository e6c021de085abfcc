"""OpenBookQA: elementary science questions with four options, based on a book of facts."""

from __future__ import annotations

from ragc.corpora.datasets.arc_challenge import with_options
from ragc.corpora.datasets.base import Card, Item
from ragc.corpora.files.row import FileRow

CARD = Card(
    id="openbookqa",
    about="elementary science questions with four options, each about one fact of a small book",
    file="train.jsonl, dev.jsonl or test.jsonl of OpenBookQA-V1-Sep2018, or *_complete.jsonl with the fact",
    licence="not stated with the data",
    home="https://allenai.org/data/open-book-qa",
    citation="Todor Mihaylov, Peter Clark, Tushar Khot, Ashish Sabharwal. Can a Suit of Armor Conduct "
    "Electricity? A New Dataset for Open Book Question Answering. EMNLP 2018.",
    splits={"train": 4957, "dev": 500, "test": 500},
    metrics=("choice_acc",),
    answer_format="choice",
)


def read(row: FileRow) -> Item:
    """Returns a question with its options below it, in ARC's form; `extra` has `fact1` if it is present."""
    return with_options(row, CARD.id)
