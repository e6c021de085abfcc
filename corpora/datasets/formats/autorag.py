"""AutoRAG: a folder with `qa.parquet`, questions with answers and gold passages, and `corpus.parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragc.corpora.datasets.base import Card, Dataset, leaves
from ragc.corpora.files.records import data_error
from ragc.corpora.files.row import FileRow
from ragc.corpora.files.rows import rows
from ragc.corpora.files.values import is_no_answer
from ragc.errors import DataError
from ragc.records import Passage, Question

CARD = Card(
    id="autorag",
    about="a folder of AutoRAG: questions with their answers and gold passages, and the passages",
    file="the folder, with qa.parquet and corpus.parquet (reading them needs pyarrow)",
    licence="that of the data set in the folder",
    home="https://github.com/Marker-Inc-Korea/AutoRAG",
    citation="Dongkyu Kim, Byoungwook Kim, Donggeon Han, Matouš Eibich. AutoRAG: Automated Framework for "
    "optimization of Retrieval Augmented Generation Pipeline. arXiv:2410.20878, 2024.",
    metrics=("em", "f1", "recall@5"),
)

QA, CORPUS = "qa.parquet", "corpus.parquet"


def load(path: Path) -> Dataset:
    """The questions and passages of the folder `path`. Raises DataError with every problem of its files."""
    for name in (QA, CORPUS):
        if not (path / name).is_file():
            raise DataError(str(path), [f"is no folder of AutoRAG: {name} is missing; give {CARD.file}"])
    problems: list[str] = []
    passages: dict[str, Passage] = {}
    for row in rows(path / CORPUS):
        passage = None if row.problems else _passage(row)
        problems += _problems(CORPUS, row)
        if passage is not None and not row.problems:
            passages[passage.id] = passage
    questions: dict[str, Question] = {}
    skipped: list[str] = []
    for row in rows(path / QA):
        question = None if row.problems else _question(row, passages)
        if question is not None and question.id in questions:
            row.problems.append(f"`qid` {question.id!r} was used before")
        problems += _problems(QA, row)
        if question is not None and not row.problems:
            if question.answers:
                questions[question.id] = question
            else:
                skipped.append(f"{row.location}: no answer says anything")
    if problems:
        raise data_error(str(path), problems)
    if not questions:
        raise DataError(str(path), [f"{QA} holds no question with an answer"])
    return Dataset(tuple(questions.values()), tuple(passages.values()), tuple(skipped))


def _problems(name: str, row: FileRow) -> list[str]:
    lacking = [f"has no column `{column}`; its columns are {', '.join(row.columns)}" for column in row.absent]
    where = f"{name}, {row.location}" if row.location else name
    return [f"{where}: {problem}" for problem in [*lacking, *row.problems]]


def _passage(row: FileRow) -> Passage:
    metadata = row.values.get("metadata")
    title = metadata.get("title") if isinstance(metadata, Mapping) else None
    passage = Passage(
        row.text("doc_id", number=True),
        title if isinstance(title, str) else "",
        row.text("contents", blank=True),
    )
    if passage.parent != passage.id:
        row.problems.append(f"`doc_id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    return passage


def _question(row: FileRow, passages: Mapping[str, Passage]) -> Question:
    """The question of a row. Gold passages are lists of lists: any of an inner one will do."""
    gold_ids = list(dict.fromkeys(_leaves(row, "retrieval_gt")))
    if lost := [name for name in gold_ids if name not in passages]:
        row.problems.append(f"`retrieval_gt` names {lost[0]!r}, not in {CORPUS}")
    answers = tuple(text for text in _leaves(row, "generation_gt") if not is_no_answer(text))
    return Question(row.text("qid", number=True), row.text("query"), answers, gold_ids=tuple(gold_ids))


def _leaves(row: FileRow, name: str) -> list[str]:
    """The texts of a field with a text, or lists of texts or of lists."""
    if name not in row.values:
        row.absent.append(name)
        return []
    level = leaves(row.values[name])
    if any(not isinstance(leaf, str) for leaf in level if leaf is not None):
        row.problems.append(f"`{name}` holds what is no text")
    return [leaf for leaf in level if isinstance(leaf, str)]
