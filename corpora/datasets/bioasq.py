"""BioASQ task B: biomedical questions with snippets of PubMed abstracts that answer them."""

from __future__ import annotations

from ragc.corpora.datasets.base import Item, Skip, passage_of, read_parts
from ragc.corpora.files.records import leaves
from ragc.corpora.files.row import FileRow, short_repr
from ragc.corpora.files.values import as_json
from ragc.errors import nearest
from ragc.records import Passage, Question

TYPES = ("yesno", "factoid", "list", "summary")
"""The question types, in `extra` as `type`."""


def read(row: FileRow, dataset: str) -> Item:
    """Returns a question; its snippets are its gold and its context, each titled with the PMID of its
    document.

    The answers are all texts of `exact_answer`: `yes` or `no`, the names of a factoid, or the items of a list
    with their synonyms, whose grouping is in `extra` as `exact_answer`. Summaries have none; their answers
    are the ideal answers. A question whose answer is blank is left out.
    """
    type_of = row.text("type")
    if type_of and type_of not in TYPES:
        near = nearest(type_of[:80], TYPES)
        row.problems.append(f"`type` is {short_repr(type_of)}, one of {', '.join(TYPES)} is needed.{near}")
    field = "ideal_answer" if type_of == "summary" else "exact_answer"
    texts = list(leaves(row.values.get(field)))
    if field not in row.values or not all(isinstance(text, str) for text in texts):
        row.problems.append(f"`{field}` is missing or holds what is no text")
    answers = [text for text in map(str, texts) if text.strip()]
    if type_of == "yesno":
        answers = [answer.strip().rstrip(".").lower() for answer in answers]
        if wrong := [answer for answer in answers if answer not in ("yes", "no")]:
            row.problems.append(
                f"`{field}` of a yes/no question is {short_repr(wrong[0])}, yes or no is needed"
            )
    snippets = read_parts(row, "snippets", lambda part: _snippet(part, dataset))
    passages = {passage.id: passage for passage in snippets if passage.text}
    exact: dict[str, object] = {
        name: as_json(row.values[name]) for name in ("exact_answer", "ideal_answer") if name in row.values
    }
    question = Question(
        row.text("id", number=True),
        row.text("body"),
        tuple(dict.fromkeys(answers)),
        gold_ids=tuple(passages),
        context_ids=tuple(passages),
        extra={"type": type_of, "documents": [_pmid(str(url)) for url in row.items("documents")], **exact},
    )
    if not answers and not row.problems:
        raise Skip(f"a {type_of} question whose `{field}` is blank")
    return question, tuple(passages.values())


def _snippet(row: FileRow, dataset: str) -> Passage:
    name = _pmid(row.text("document"))
    title = f"PMID {name}" if name.isdecimal() else name
    return passage_of(dataset, title, row.text("text", blank=True).strip())


def _pmid(url: str) -> str:
    """Returns the last part of a document's URL, which for PubMed is its PMID."""
    return url.rstrip("/").rpartition("/")[2]
