"""QAMPARI: questions with many answers, each from a different paragraph; in ALCE's form."""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, documents, read_texts
from ragc.corpora.files.row import FileRow
from ragc.records import Question

CARD = Card(
    id="qampari",
    about="questions with five or more answers, each of which may have aliases",
    file="ALCE's qampari_eval_*.json",
    licence="CC0 1.0",
    home="https://samsam3232.github.io/qampari/",
    citation="Samuel Amouyal, Tomer Wolfson, Ohad Rubin, Ori Yoran, Jonathan Herzig, Jonathan Berant. "
    "QAMPARI: A Benchmark for Open-domain Questions with Many Answers. GEM workshop at EMNLP "
    "2023. ALCE: Tianyu Gao, Howard Yen, Jiatong Yu, Danqi Chen. Enabling Large Language Models "
    "to Generate Text with Citations. EMNLP 2023.",
    splits={"train": 61911, "dev": 1000, "test": 1000},
    metrics=(
        "qampari_f1",
        "qampari_f1_5",
        "qampari_prec",
        "qampari_rec_5",
        "alce_cite_recall",
        "alce_cite_precision",
        "alce_cite_f1",
    ),
    answer_format="cited_list",
)


def read(row: FileRow) -> Item:
    """Returns a question whose answers are all aliases of all its answers, without duplicates, in order.

    `extra` has the list of alias lists as `answers`. ALCE's `docs` become the passages that come with the
    question.
    """
    row.items("answers", needed=True)
    answers = read_texts(row, "answers") if not row.problems else []
    passages = documents(row, "docs", CARD.id)
    question = Question(
        row.text("id", number=True),
        row.text("question"),
        tuple(dict.fromkeys(answers)),
        context_ids=tuple(passage.id for passage in passages),
        extra={"answers": row.values.get("answers", [])},
    )
    if not answers and not row.problems:
        row.problems.append("`answers` holds no text")
    return question, passages
