"""ASQA: ambiguous questions with a long answer that covers all readings."""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, documents, read_parts, read_texts
from ragc.corpora.files.row import FileRow
from ragc.records import Question

CARD = Card(
    id="asqa",
    about="ambiguous factoid questions with a sub-question and short answers for each reading",
    file="ALCE's asqa_eval_*.json, or ASQA's questions as JSON lines",
    licence="Apache 2.0 (repository google-research/language; none stated for the data apart)",
    home="https://github.com/google-research/language/tree/master/language/asqa",
    citation="Ivan Stelmakh, Yi Luan, Bhuwan Dhingra, Ming-Wei Chang. ASQA: Factoid Questions Meet "
    "Long-Form Answers. EMNLP 2022. ALCE: Tianyu Gao, Howard Yen, Jiatong Yu, Danqi Chen. "
    "Enabling Large Language Models to Generate Text with Citations. EMNLP 2023.",
    splits={"train": 4353, "dev": 948, "test": 1015},
    metrics=(
        "alce_str_em",
        "alce_str_hit",
        "slim_em",
        "hit1",
        "rougeLsum",
        "alce_cite_recall",
        "alce_cite_precision",
        "alce_cite_f1",
    ),
    answer_format="cited",
    under="dev",
)


def read(row: FileRow) -> Item:
    """Returns a question whose answers are the short answers of all its readings, without duplicates, in
    order.

    `extra` has `qa_pairs` unchanged, from which programs read the sub-questions, and the annotators'
    `long_answers`. ALCE's `docs` become the passages that come with the question.
    """
    pairs = read_parts(row, "qa_pairs", _answers, needed=True)
    written = read_parts(row, "annotations", lambda one: one.text("long_answer", blank=True))
    passages = documents(row, "docs", CARD.id)
    question = Question(
        row.text("sample_id" if "sample_id" in row.values else "id", number=True),
        row.text("ambiguous_question" if "ambiguous_question" in row.values else "question"),
        tuple(dict.fromkeys(answer for pair in pairs for answer in pair)),
        context_ids=tuple(passage.id for passage in passages),
        extra={
            "qa_pairs": row.values.get("qa_pairs", []),
            "long_answers": [text for text in written if text.strip()],
        },
    )
    if not question.answers and not row.problems:
        row.problems.append("no `short_answers` of its `qa_pairs` holds a text")
    return question, passages


def _answers(row: FileRow) -> list[str]:
    row.text("question")
    return read_texts(row, "short_answers")
