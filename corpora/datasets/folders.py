"""Data sets that are folders in the format of another system.

beir       `corpus.jsonl`, `queries.jsonl` and judgements of passages in `qrels/*.tsv`
autorag    `qa.parquet`, questions with answers and gold passages, and `corpus.parquet`

The name of a file of judgements is the split of its queries. A query of BEIR has no gold answer, unless its
`metadata` has `answer` or `answers`, so most folders are for metrics of retrieval alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.corpora.datasets.base import Dataset, Skip, load, problems_of
from ragc.corpora.files.records import data_error, read_corpus, read_questions
from ragc.corpora.files.rows import Words, rows
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question

if TYPE_CHECKING:
    from ragc.corpora.datasets import Card

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_COLUMNS = ("query-id", "corpus-id", "score")


class _Judgement(BaseModel):
    query: Words = Field(alias="query-id")
    passage: Words = Field(alias="corpus-id")
    score: int


def autorag(card: Card, folder: Path) -> Dataset:
    """Returns the questions and passages of AutoRAG's `folder`. Raises DataError with every problem."""
    questions, corpus = _files(card, folder, "qa.parquet", "corpus.parquet")
    passages = read_corpus(corpus)
    read = read_questions(questions, corpus_ids={passage.id for passage in passages})
    return Dataset(read.questions, passages, read.skipped)


def beir(card: Card, folder: Path) -> Dataset:
    """Returns the queries and passages of BEIR's `folder`; queries without a positive judgement are left out.

    Raises DataError with every problem of its files.
    """
    corpus, queries, qrels = _files(card, folder, CORPUS, QUERIES, QRELS)
    judgements: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for file in sorted(qrels.glob("*.tsv")):
        for row in rows(file, delimiter="\t"):
            try:
                judged = _Judgement.model_validate(row.values)
                judgement = judgements.setdefault(judged.query, {"split": file.stem, "gold_ids": []})
                if judgement["split"] != file.stem:
                    raise ValueError(f"the query {judged.query!r} is in the split {judgement['split']!r} too")
                if judged.score > 0:
                    judgement["gold_ids"].append(judged.passage)
            except ValueError as error:
                row.problems = row.problems or problems_of(error)
            problems += [f"{QRELS}/{file.name}, {problem}" for problem in row.located()]
    if problems:
        raise data_error(str(folder), problems)

    def judge(values: dict[str, Any], dataset: str) -> dict[str, Any]:
        judgement = judgements.get(str(values.get("_id")), {})
        if not judgement.get("gold_ids"):
            raise Skip("no passage is judged to answer it")
        return values | judgement

    return load(card, queries, judge, corpus=read_corpus(corpus, fields={"id": "_id"}))


def _files(card: Card, folder: Path, *names: str) -> list[Path]:
    """Returns the files or folders `names` in `folder`, packed by gzip or not. Raises DataError."""
    places = []
    for name in names:
        place = next((place for place in (folder / name, folder / f"{name}.gz") if place.exists()), None)
        if place is None:
            raise DataError(str(folder), [f"is no folder of {card.id}: {name} is missing; give {card.file}"])
        places.append(place)
    return places


def write_beir(out: Path, splits: Mapping[str, Iterable[Question]], passages: Iterable[Passage]) -> int:
    """Writes a new folder in the format of BEIR; returns the number of queries.

    Answers go to the metadata of queries. Questions without gold passages are left out, as nothing is judged.
    Raises UsageError if `out` is there already, or no question has a gold passage.
    """
    if out.exists():
        raise UsageError(f"{str(out)!r} is there already; name a new folder.")
    queries, files = list[Any](), dict[str, str]()
    for split, questions in splits.items():
        judged = [question for question in questions if question.gold_ids]
        queries += [
            {"_id": q.id, "text": q.question, "metadata": {"answers": q.answers} if q.answers else {}}
            for q in judged
        ]
        if judged:
            lines = [_COLUMNS, *((question.id, id, 1) for question in judged for id in question.gold_ids)]
            csv.writer(table := io.StringIO(), delimiter="\t", lineterminator="\n").writerows(lines)
            files[f"{QRELS}/{split}.tsv"] = table.getvalue()
    if not queries:
        raise UsageError("No question names a gold passage, so there is nothing that BEIR's format can hold.")
    corpus = [{"_id": p.id, "title": p.title, "text": p.text} for p in passages]
    for name, items in ((QUERIES, queries), (CORPUS, corpus)):
        files[name] = "".join(f"{json_text(item)}\n" for item in items)
    for name, text in files.items():
        put_file(out / name, text.encode())
    return len(queries)


READERS = {"beir": beir, "autorag": autorag}
"""The reader of each data set that is a folder."""
