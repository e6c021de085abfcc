"""BEIR: a folder with `corpus.jsonl`, `queries.jsonl` and judgements of passages in `qrels/*.tsv`.

The name of a file of judgements is the split of its queries. A query has no gold answer there, unless its
`metadata` has `answer` or `answers`, so most folders are for metrics of retrieval alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.corpora.datasets.base import Dataset
from ragc.corpora.datasets.cards import card
from ragc.corpora.files.records import data_error, leaves, read_corpus, read_questions
from ragc.corpora.files.rows import rows
from ragc.corpora.files.values import as_text
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"


def load(path: Path) -> Dataset:
    """The queries and passages of the folder `path`; queries without a positive judgement are left out.

    Raises DataError with every problem of its files.
    """
    places = {
        n: next((f for f in (path / n, path / f"{n}.gz") if f.exists()), None)
        for n in (CORPUS, QUERIES, QRELS)
    }
    corpus, queries, qrels = places.values()
    if not corpus or not queries or not qrels:
        missing = next(name for name, place in places.items() if not place)
        raise DataError(str(path), [f"is no folder of BEIR: {missing} is missing; give {card('beir').file}"])
    passages = read_corpus(corpus, fields={"id": "_id"})
    ids, (splits, golds) = {passage.id for passage in passages}, _judgements(qrels)
    questions, skipped = [], []
    for question in read_questions(
        queries, fields={"id": "_id", "question": "text"}, answered=False
    ).questions:
        gold = golds.get(question.id, ())
        if lost := [name for name in gold if name not in ids]:
            raise DataError(str(path), [f"a judgement of {question.id!r} names {lost[0]!r}, not in {CORPUS}"])
        metadata = question.extra.get("metadata")
        answer = metadata.get("answers", metadata.get("answer")) if isinstance(metadata, Mapping) else None
        answers = tuple(text.strip() for leaf in leaves(answer) if (text := as_text(leaf) or "").strip())
        if gold:
            split = splits[question.id]
            questions.append(replace(question, answers=answers, split=split, gold_ids=tuple(gold)))
        else:
            skipped.append(f"{question.id}: no passage is judged to answer it")
    if not questions:
        raise DataError(str(path), [f"no query has a positive judgement of a passage in {CORPUS}"])
    return Dataset(tuple(questions), passages, tuple(skipped))


def _judgements(folder: Path) -> tuple[dict[str, str], dict[str, dict[str, None]]]:
    """Returns the split of each query, and its passages with a positive grade."""
    splits: dict[str, str] = {}
    golds: dict[str, dict[str, None]] = {}
    problems: list[str] = []
    for file in sorted(folder.glob("*.tsv")):
        for row in rows(file, delimiter="\t"):
            where = f"{QRELS}/{file.name}, {row.location}: "
            query, passage, score = (row.text(name) for name in ("query-id", "corpus-id", "score"))
            if score and not score.lstrip("-").isdecimal():
                row.problems.append(f"`score` is {score!r}, a whole number is needed")
            elif splits.setdefault(query, file.stem) != file.stem:
                row.problems.append(f"the query {query!r} is in the split {splits[query]!r} too")
            elif score and int(score) > 0:
                golds.setdefault(query, {})[passage] = None
            problems += [where + problem for problem in row.problems]
    if problems or not splits:
        none = f"{QRELS}/ holds no .tsv file with judgements; give one a split, such as {QRELS}/test.tsv"
        raise data_error(str(folder.parent), problems or [none])
    return splits, golds


def write(out: Path, splits: Mapping[str, Iterable[Question]], passages: Iterable[Passage]) -> int:
    """Writes a new folder in the format of BEIR; returns the number of queries.

    Answers go to the metadata of queries. Questions without gold passages are left out, as nothing is judged.
    Raises UsageError if `out` is there already, or no question has a gold passage.
    """
    if out.exists():
        raise UsageError(f"{str(out)!r} is there already; name a new folder.")
    files: dict[str, list[str]] = {QUERIES: []}
    for split, questions in splits.items():
        lines = ["query-id\tcorpus-id\tscore"]
        for question in (query for query in questions if query.gold_ids):
            metadata: dict[str, Any] = {"answers": list(question.answers)} if question.answers else {}
            row = {"_id": question.id, "text": question.question, "metadata": metadata}
            files[QUERIES].append(json_text(row))
            lines += [f"{_cell(question.id)}\t{_cell(name)}\t1" for name in question.gold_ids]
        if len(lines) > 1:
            files[f"{QRELS}/{split}.tsv"] = lines
    if not files[QUERIES]:
        raise UsageError("No question names a gold passage, so there is nothing that BEIR's format can hold.")
    files[CORPUS] = [json_text({"_id": p.id, "title": p.title, "text": p.text}) for p in passages]
    for name, lines in files.items():
        put_file(out / name, "".join(f"{line}\n" for line in lines).encode())
    return len(files[QUERIES])


def _cell(text: str) -> str:
    """An id as a cell of a table; quoted where it holds a tab or a quotation mark."""
    quoted = any(mark in text for mark in '\t"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text
