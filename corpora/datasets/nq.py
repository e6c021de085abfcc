"""NQ-open: the questions of Natural Questions that have a short answer, without passages."""

from __future__ import annotations

import hashlib

from ragc.corpora.datasets.base import Card, Item
from ragc.corpora.files.row import FileRow
from ragc.records import Question

CARD = Card(
    id="nq",
    about="what people asked a search engine, answered in at most five words; no passages (NQ-open)",
    file="NQ-open.train.jsonl, NQ-open.dev.jsonl or NQ-open.efficientqa.dev.1.1.jsonl",
    licence="CC BY-SA 3.0",
    home="https://github.com/google-research-datasets/natural-questions/tree/master/nq_open",
    citation="Kenton Lee, Ming-Wei Chang, Kristina Toutanova. Latent Retrieval for Weakly Supervised Open "
    "Domain Question Answering. ACL 2019. Data: Tom Kwiatkowski et al. Natural Questions: A Benchmark for "
    "Question Answering Research. TACL 7, 2019.",
    splits={"train": 87_925, "dev": 3_610, "efficientqa_dev": 1_800},
    metrics=("em", "f1", "acc", "slim_em", "hit1", "qampari_f1"),
)


def read(row: FileRow) -> Item:
    """Returns the question of `row`; its id is derived from its text, because the files have none."""
    question = row.text("question")
    mark = hashlib.sha256(question.encode("utf-8")).hexdigest()[:12]
    answers = tuple(dict.fromkeys(row.texts("answer", needed=True)))
    return Question(f"{CARD.id}-{mark}", question, answers), ()
