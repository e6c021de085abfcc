"""BioASQ task B: biomedical questions with snippets of PubMed abstracts that answer them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from ragc.corpora.datasets.base import Item, Skip, passage_of
from ragc.corpora.files.rows import FileRow, Text, Texts, Words, as_json
from ragc.records import Question


class Snippet(BaseModel):
    """A piece of an abstract."""

    document: Words
    text: Text


class Row(BaseModel):
    """A question, in `extra` with its `type`."""

    id: Words
    body: Words
    type: Literal["yesno", "factoid", "list", "summary"]
    exact_answer: Texts = ()
    ideal_answer: Texts = ()
    snippets: list[Snippet] = []
    documents: list[Text] = []


def read(row: FileRow, dataset: str) -> Item | None:
    """Returns a question; its snippets are its gold and its context, each titled with the PMID of its
    document.

    The answers are all texts of `exact_answer`: `yes` or `no`, the names of a factoid, or the items of a list
    with their synonyms, whose grouping is in `extra` as `exact_answer`. Summaries have none; their answers
    are the ideal answers. A question whose answer is blank is left out.
    """
    if not (found := row.read(Row)):
        return None
    field = "ideal_answer" if found.type == "summary" else "exact_answer"
    answers = found.ideal_answer if found.type == "summary" else found.exact_answer
    if field not in row.values:
        row.problems.append(f"`{field}` is missing")
    elif not answers:
        raise Skip(f"a {found.type} question whose `{field}` is blank")
    if found.type == "yesno":
        answers = tuple(dict.fromkeys(answer.strip().rstrip(".").lower() for answer in answers))
        if wrong := {*answers} - {"yes", "no"}:
            row.problems.append(f"`{field}` of a yes/no question is {min(wrong)!r:.80}, yes or no is needed")
    snippets = (passage_of(dataset, _title(part.document), part.text) for part in found.snippets)
    passages = {passage.id: passage for passage in snippets if passage.text}
    extra: dict[str, object] = {
        name: as_json(row.values[name]) for name in ("exact_answer", "ideal_answer") if name in row.values
    }
    documents = [_last_part(url) for url in found.documents]
    question = Question(
        found.id,
        found.body,
        answers,
        gold_ids=tuple(passages),
        context_ids=tuple(passages),
        extra={"type": found.type, "documents": documents, **extra},
    )
    return question, tuple(passages.values())


def _title(url: str) -> str:
    name = _last_part(url)
    return f"PMID {name}" if name.isdecimal() else name


def _last_part(url: str) -> str:
    """Returns the last part of a document's URL, which for PubMed is its PMID."""
    return url.rstrip("/").rpartition("/")[2]
