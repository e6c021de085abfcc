"""`bm25` finds the gold passages of real questions as often as the data's own baseline, or more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files.records import read_questions
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.storage import corpus as corpora
from ragc.metrics.base import Outcome
from ragc.metrics.retrieval import at
from tests.paths import SHARED_DATA

DATA = SHARED_DATA
K = 5
RECALL = at("recall", K)

# Titles count thrice here; with a title counted once recall is 0.71, 0.71, 0.52, 0.80, 0.54 at our k1 and b.
# recall@5 of the baseline: k1 = 1.2, b = 0.75, title and text, no stemming, a short list of stop words.
BASELINE = {
    "hotpotqa": ("corpus.jsonl.gz", "questions_dev.jsonl", 769, 0.731),
    "2wikimultihopqa": ("corpus.jsonl.gz", "questions_dev.jsonl", 164, 0.689),
    "musique": ("corpus.jsonl.gz", "questions_dev.jsonl", 200, 0.484),
    "nq": ("corpus.jsonl.gz", "questions.jsonl", 2655, 0.811),
    "bioasq": ("corpus_snippets.jsonl.gz", "questions_yesno.jsonl", 618, 0.534),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "our defaults": {"title_boost": 3},
    "those of the baseline": {"k1": 1.2, "b": 0.75, "title_boost": 3},
}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"the data sets are not in {DATA}"),
]


def recall(corpus: Path, questions: Path, home: Path, **settings: Any) -> tuple[int, float]:
    """How many questions name gold passages, and the mean recall@5 of those."""
    source = Bm25Source(corpora.read(corpus, home=home), home=home, **settings)

    async def score_questions() -> list[float | None]:
        return [
            RECALL.score(Outcome.of(question, None, [hit.passage for hit in hits]))
            for question in read_questions(questions).questions
            for hits in [await source.search(question.question, K)]
        ]

    values = [value for value in asyncio.run(score_questions()) if value is not None]
    return len(values), sum(values) / len(values)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", BASELINE)
def test_recall_is_at_least_that_of_the_baseline(name: str, settings: str, tmp_path: Path) -> None:
    corpus, questions, question_count, least = BASELINE[name]
    n, score = recall(DATA / name / corpus, DATA / name / questions, tmp_path, **SETTINGS[settings])
    print(f"{name}, {settings}: recall@{K} = {score:.4f} of {n} questions, baseline {least}")
    assert n == question_count
    assert score >= least
