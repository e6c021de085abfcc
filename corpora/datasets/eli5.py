"""ELI5: forum questions that ask for an explanation; in ALCE's form, with claims to be covered."""

from __future__ import annotations

from ragc.core.digest import digest
from ragc.corpora.datasets.base import Card, Item, documents
from ragc.corpora.files.row import FileRow
from ragc.records import Question

CARD = Card(
    id="eli5",
    about="why and how questions with a long answer and three claims of it",
    file="ALCE's eli5_eval_*.json",
    licence="unknown; text of Reddit",
    home="https://github.com/princeton-nlp/ALCE",
    citation="Angela Fan, Yacine Jernite, Ethan Perez, David Grangier, Jason Weston, Michael Auli. ELI5: "
    "Long Form Question Answering. ACL 2019. ALCE: Tianyu Gao, Howard Yen, Jiatong Yu, Danqi "
    "Chen. Enabling Large Language Models to Generate Text with Citations. EMNLP 2023.",
    splits={"ALCE": 1000},
    metrics=(
        "alce_claim_recall",
        "rougeLsum",
        "rouge1",
        "rouge2",
        "rougeL",
        "alce_cite_recall",
        "alce_cite_precision",
        "alce_cite_f1",
    ),
    answer_format="cited",
)


def read(row: FileRow) -> Item:
    """Returns a question whose only answer is the forum's; `extra` has its `claims` and `question_ctx`.

    A missing id is derived from the question. ALCE's `docs` become the passages that come with it.
    """
    text = row.text("question")
    passages = documents(row, "docs", CARD.id)
    question = Question(
        row.text("id", number=True) if "id" in row.values else f"eli5-{digest(text)[:12]}",
        text,
        (row.text("answer"),),
        context_ids=tuple(passage.id for passage in passages),
        extra={
            "claims": list(row.texts("claims")),
            "question_ctx": row.text("question_ctx", needed=False, blank=True),
        },
    )
    return question, passages
