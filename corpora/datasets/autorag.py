"""AutoRAG: a folder with `qa.parquet`, questions with answers and gold passages, and `corpus.parquet`."""

from __future__ import annotations

from pathlib import Path

from ragc.corpora.datasets.base import Dataset
from ragc.corpora.datasets.cards import card
from ragc.corpora.files.records import read_corpus, read_questions
from ragc.errors import DataError

QA, CORPUS = "qa.parquet", "corpus.parquet"


def load(path: Path) -> Dataset:
    """The questions and passages of the folder `path`. Raises DataError with every problem of its files."""
    for name in (QA, CORPUS):
        if not (path / name).is_file():
            needed = f"{name} is missing; give {card('autorag').file}"
            raise DataError(str(path), [f"is no folder of AutoRAG: {needed}"])
    passages = read_corpus(path / CORPUS)
    read = read_questions(path / QA, corpus_ids={passage.id for passage in passages})
    return Dataset(read.questions, passages, read.skipped)
