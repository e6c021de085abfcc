"""Ragas: a test set as it is saved by `to_jsonl`, `to_csv` or pandas, of the present form and of the first.

A row has `user_input` (first: `question`), `reference` (`ground_truth` or `ground_truths`) and
`reference_contexts` (`contexts`), the passages that it was written from.
"""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, Skip, passage_of
from ragc.corpora.files.row import FileRow
from ragc.corpora.files.values import as_json, as_list, is_no_answer
from ragc.records import Question

CARD = Card(
    id="ragas",
    about="a test set of Ragas: questions with reference answers, and the contexts that they come from",
    file="the file of the test set, JSON lines, CSV or Parquet",
    licence="that of the documents in the file",
    home="https://github.com/explodinggradients/ragas",
    citation="Shahul Es, Jithin James, Luis Espinosa-Anke, Steven Schockaert. RAGAs: Automated Evaluation of "
    "Retrieval Augmented Generation. EACL 2024 System Demonstrations.",
    metrics=("f1", "em", "recall@5"),
)

_QUESTION = ("user_input", "question")
_ANSWER = ("reference", "ground_truth", "ground_truths", "answer")
_CONTEXTS = ("reference_contexts", "contexts")


def read(row: FileRow) -> Item:
    """The question of `row` with its contexts as gold passages; its id is the number of the row.

    Conversations of several turns, whose `user_input` is a list, are left out, as are rows without a
    reference.
    """
    question_column = next((name for name in _QUESTION if name in row.values), _QUESTION[0])
    if isinstance(row.values.get(question_column), list):
        raise Skip("it is a conversation of several turns")
    question = row.text(question_column)
    column = next((name for name in _ANSWER if name in row.values), "")
    if not column:
        row.problems.append(f"has no reference: {' or '.join(_ANSWER[:2])} is needed")
    answers = _texts(row, column)
    contexts = _texts(row, next((name for name in _CONTEXTS if name in row.values), ""))
    passages = tuple(dict.fromkeys(passage_of(CARD.id, "", text.strip()) for text in contexts))
    known = {*_QUESTION, *_ANSWER, *_CONTEXTS}
    extra = {name: as_json(value) for name, value in row.values.items() if name not in known}
    if column and not answers and not row.problems:
        raise Skip("it has no reference answer")
    number = "".join(char for char in row.location if char.isdigit())
    gold_ids = tuple(passage.id for passage in passages)
    return Question(f"row-{number}", question, answers, gold_ids=gold_ids, extra=extra), passages


def _texts(row: FileRow, column: str) -> tuple[str, ...]:
    """The texts in a column, whose cells may spell a list as Python or JSON does."""
    items = as_list(row.values.get(column), cells=True) if column else []
    if any(not isinstance(item, str) for item in items if item is not None):
        row.problems.append(f"`{column}` holds what is no text")
    return tuple(item for item in items if isinstance(item, str) and not is_no_answer(item))
