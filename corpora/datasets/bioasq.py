"""BioASQ task B: biomedical questions with snippets of PubMed abstracts that answer them."""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, Skip, passage_of, read_parts, read_texts
from ragc.corpora.files.row import FileRow, short_repr
from ragc.errors import nearest
from ragc.records import Passage, Question

CARD = Card(
    id="bioasq",
    about="biomedical questions in four types: yes/no, factoid, list and summary; with snippets",
    file="a golden or training file of task B, such as 11B1_golden.json",
    licence="not stated in the files; they need registration and hold text of PubMed under the NLM's terms",
    home="http://participants-area.bioasq.org/datasets/",
    citation="Anastasia Krithara, Anastasios Nentidis, Konstantinos Bougiatiotis, Georgios Paliouras. "
    "BioASQ-QA: A manually curated corpus for Biomedical Question Answering. Scientific Data "
    "10, 2023.",
    splits={"7B test": 500, "8B test": 500, "9B test": 497, "10B test": 486, "11B test": 327},
    metrics=(
        *("bioasq_acc", "acc", "em", "f1"),
        *("bioasq_macro_f1", "bioasq_mrr", "bioasq_sacc", "bioasq_lacc", "bioasq_list_f"),
    ),
    answer_format="short",
    under="questions",
)

TYPES = ("yesno", "factoid", "list", "summary")
"""The question types, in `extra` as `type`."""


def read(row: FileRow) -> Item:
    """Returns a question; its snippets are its gold and its context, each titled with the PMID of its
    document.

    The answers are all texts of `exact_answer`: `yes` or `no`, the names of a factoid, or the items of a list
    with their synonyms, whose grouping is in `extra` as `exact_answer`. Summaries have none; their answers
    are the ideal answers. A question whose answer is blank is left out.
    """
    question_type = row.text("type")
    if question_type and question_type not in TYPES:
        known = ", ".join(TYPES)
        row.problems.append(
            f"`type` is {short_repr(question_type)}, one of {known} is "
            f"needed.{nearest(question_type[:80], TYPES)}"
        )
    field = "ideal_answer" if question_type == "summary" else "exact_answer"
    answers = read_texts(row, field)
    if question_type == "yesno":
        answers = _yes_or_no(row, answers)
    passages = {p.id: p for p in read_parts(row, "snippets", _snippet) if p.text}
    question = Question(
        row.text("id", number=True),
        row.text("body"),
        tuple(dict.fromkeys(answers)),
        gold_ids=tuple(passages),
        context_ids=tuple(passages),
        extra={
            "type": question_type,
            "documents": [_pmid(url) for url in row.texts("documents")],
            **{name: row.values[name] for name in ("exact_answer", "ideal_answer") if name in row.values},
        },
    )
    if not answers and not row.problems:
        raise Skip(f"a {question_type} question whose `{field}` is blank")
    return question, tuple(passages.values())


def _yes_or_no(row: FileRow, answers: list[str]) -> list[str]:
    plain = [answer.strip().rstrip(".").lower() for answer in answers]
    if wrong := [answer for answer in plain if answer not in ("yes", "no")]:
        row.problems.append(
            f"`exact_answer` of a yes/no question is {short_repr(wrong[0])}, yes or no is needed"
        )
    return plain


def _snippet(row: FileRow) -> Passage:
    name = _pmid(row.text("document"))
    title = f"PMID {name}" if name.isdecimal() else name
    return passage_of(CARD.id, title, row.text("text", blank=True).strip())


def _pmid(url: str) -> str:
    """Returns the last part of a document's URL, which for PubMed is its PMID."""
    return url.rstrip("/").rpartition("/")[2]
