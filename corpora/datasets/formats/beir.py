"""BEIR: a folder with `corpus.jsonl`, `queries.jsonl` and judgements of passages in `qrels/*.tsv`.

The name of a file of judgements is the split of its queries. A query has no gold answer there, unless its
`metadata` has `answer` or `answers`, so most folders are for metrics of retrieval alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.corpora.datasets.base import Card, Dataset
from ragc.corpora.files.records import data_error
from ragc.corpora.files.rows import rows
from ragc.corpora.files.values import as_text
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question

CARD = Card(
    id="beir",
    about="a folder in the format of BEIR: passages, queries and judgements by split, with answers where the "
    "metadata of queries have them",
    file="the folder, with corpus.jsonl, queries.jsonl and qrels/*.tsv",
    licence="that of the data set in the folder",
    home="https://github.com/beir-cellar/beir",
    citation="Nandan Thakur, Nils Reimers, Andreas Rücklé, Abhishek Srivastava, Iryna Gurevych. BEIR: A "
    "Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models. NeurIPS 2021 Datasets "
    "and Benchmarks.",
    metrics=("ndcg@10", "recall@5", "mrr", "em", "f1"),
)

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"


@dataclass(slots=True)
class _Judged:
    """The judgements of one query: its split, and the ids of passages with a positive grade."""

    split: str
    gold_ids: list[str] = field(default_factory=list)


def load(path: Path) -> Dataset:
    """The queries and passages of the folder `path`; queries without a positive judgement are left out.

    Raises DataError with every problem of its files.
    """
    for name in (CORPUS, QUERIES, QRELS):
        if not any((path / f"{name}{packed}").exists() for packed in ("", ".gz")):
            raise DataError(str(path), [f"is no folder of BEIR: {name} is missing; give {CARD.file}"])
    problems: list[str] = []
    passages = _passages(_file(path, CORPUS), problems)
    judged = _judgements(path / QRELS, problems)
    questions, skipped = _queries(_file(path, QUERIES), judged, passages, problems)
    if problems:
        raise data_error(str(path), problems)
    if not questions:
        raise DataError(str(path), ["no query has a positive judgement of a passage in corpus.jsonl"])
    return Dataset(tuple(questions.values()), tuple(passages.values()), tuple(skipped))


def _file(path: Path, name: str) -> Path:
    return path / name if (path / name).exists() else path / f"{name}.gz"


def _passages(path: Path, problems: list[str]) -> dict[str, Passage]:
    passages: dict[str, Passage] = {}
    for row in rows(path):
        passage = None
        if not row.problems:
            name = row.text("_id", number=True)
            title = row.text("title", needed=False, blank=True)
            passage = Passage(name, title, row.text("text", blank=True))
            if name in passages:
                row.problems.append(f"`_id` {name!r} was used before")
            if passage.parent != passage.id:
                row.problems.append(f"`_id` {name!r} ends in '#0', which marks a first chunk; rename it")
        problems += [f"{CORPUS}, {row.location}: {problem}" for problem in row.problems]
        if passage is not None and not row.problems:
            passages[passage.id] = passage
    return passages


def _judgements(folder: Path, problems: list[str]) -> dict[str, _Judged]:
    """The judgements by query. One that is judged in two splits stays in the first, and that is a problem."""
    judged: dict[str, _Judged] = {}
    files = sorted(folder.glob("*.tsv"))
    if not files:
        problems.append(f"{QRELS}/ holds no .tsv file; give one a split, such as {QRELS}/test.tsv")
    for file in files:
        for row in rows(file, delimiter="\t"):
            where = f"{QRELS}/{file.name}, {row.location}"
            columns = ("query-id", "corpus-id", "score")
            if row.problems or any(name not in row.values for name in columns):
                problems += [f"{where}: {problem}" for problem in row.problems] or [
                    f"{where}: the columns {', '.join(columns)} are needed, found {', '.join(row.values)}"
                ]
                break
            query, passage, score = (str(row.values[name] or "") for name in columns)
            if not score.lstrip("-").isdecimal():
                problems.append(f"{where}: `score` is {score!r}, a whole number is needed")
                continue
            known = judged.setdefault(query, _Judged(file.stem))
            if known.split != file.stem:
                problems.append(f"{where}: the query {query!r} is in the split {known.split!r} too")
            elif int(score) > 0 and passage not in known.gold_ids:
                known.gold_ids.append(passage)
    return judged


def _queries(
    path: Path, judged: Mapping[str, _Judged], passages: Mapping[str, Passage], problems: list[str]
) -> tuple[dict[str, Question], list[str]]:
    questions: dict[str, Question] = {}
    skipped: list[str] = []
    for row in rows(path):
        if not row.problems:
            name, text = row.text("_id", number=True), row.text("text")
            if name in questions:
                row.problems.append(f"`_id` {name!r} was used before")
            own = judged.get(name)
            lost = [one for one in own.gold_ids if one not in passages] if own else []
            if lost:
                row.problems.append(f"a judgement names {lost[0]!r}, not in {CORPUS}")
            if not row.problems and (own is None or not own.gold_ids):
                skipped.append(f"{row.location}: no passage is judged to answer it")
            elif not row.problems and own is not None:
                metadata = row.values.get("metadata") or {}
                questions[name] = Question(
                    name,
                    text,
                    _answers(metadata),
                    own.split,
                    tuple(own.gold_ids),
                    extra={"metadata": metadata},
                )
        problems += [f"{QUERIES}, {row.location}: {problem}" for problem in row.problems]
    return questions, skipped


def _answers(metadata: object) -> tuple[str, ...]:
    """The gold answers in the metadata of a query; none in most folders."""
    if not isinstance(metadata, Mapping):
        return ()
    value = metadata.get("answers", metadata.get("answer"))
    items = value if isinstance(value, list) else [value]
    texts = (as_text(item) for item in items if item is not None)
    return tuple(text.strip() for text in texts if text and text.strip())


def write(out: Path, splits: Mapping[str, Iterable[Question]], passages: Iterable[Passage]) -> int:
    """Writes a new folder in the format of BEIR; returns the number of queries.

    Answers go to the metadata of queries. Questions without gold passages are left out, as nothing is judged.
    Raises UsageError if `out` is there already, or no question has a gold passage.
    """
    if out.exists():
        raise UsageError(f"{str(out)!r} is there already; name a new folder.")
    queries: list[str] = []
    files: dict[str, bytes] = {}
    for split, questions in splits.items():
        lines = ["query-id\tcorpus-id\tscore"]
        for question in questions:
            if not question.gold_ids:
                continue
            metadata: dict[str, Any] = {"answers": list(question.answers)} if question.answers else {}
            row = {"_id": question.id, "text": question.question, "metadata": metadata}
            queries.append(json_text(row))
            lines += [f"{_cell(question.id)}\t{_cell(name)}\t1" for name in question.gold_ids]
        if len(lines) > 1:
            files[f"{QRELS}/{split}.tsv"] = ("\n".join(lines) + "\n").encode()
    if not queries:
        raise UsageError("No question names a gold passage, so there is nothing that BEIR's format can hold.")
    corpus = (
        json.dumps({"_id": p.id, "title": p.title, "text": p.text}, ensure_ascii=False) for p in passages
    )
    files[CORPUS] = "".join(f"{line}\n" for line in corpus).encode()
    files[QUERIES] = "".join(f"{line}\n" for line in queries).encode()
    for name, content in files.items():
        put_file(out / name, content)
    return len(queries)


def _cell(text: str) -> str:
    """An id as a cell of a table; quoted where it holds a tab or a quotation mark."""
    quoted = any(mark in text for mark in '\t"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text
