"""KILT: Natural Questions, TriviaQA and ELI5, linked to the pages of one Wikipedia dump.

The files name pages without their text, so there are no passages; the provenance of answers goes to `extra`.
The official test files have no answers and cannot be read.
"""

from __future__ import annotations

from typing import Any

from ragc.corpora.datasets.base import Card, Item, read_parts
from ragc.corpora.files.row import FileRow
from ragc.records import Question

_LICENCE = "MIT (of the official repository; each set keeps its own: {})"
_HOME = "https://github.com/facebookresearch/KILT"
_PAPER = (
    "Fabio Petroni, Aleksandra Piktus, Angela Fan, Patrick Lewis, Majid Yazdani, Nicola De Cao, James "
    "Thorne, Yacine Jernite, Vladimir Karpukhin, Jean Maillard, Vassilis Plachouras, Tim Rocktäschel, "
    "Sebastian Riedel. KILT: a Benchmark for Knowledge Intensive Language Tasks. NAACL 2021."
)

CARD = Card(
    id="kilt",
    about="Natural Questions and TriviaQA with the Wikipedia pages that support each answer; no passages",
    file="nq-train-kilt.jsonl, nq-dev-kilt.jsonl, triviaqa-train-kilt.jsonl or triviaqa-dev-kilt.jsonl, with "
    "the questions of TriviaQA put in by the script of the official repository",
    licence=_LICENCE.format("NQ CC BY-SA 3.0, TriviaQA Apache-2.0"),
    home=_HOME,
    citation=_PAPER,
    splits={"nq_train": 87_372, "nq_dev": 2_837, "triviaqa_train": 61_844, "triviaqa_dev": 5_359},
    metrics=("em", "f1", "acc", "slim_em", "hit1"),
)

ELI5 = Card(
    id="kilt_eli5",
    about="questions that ask for an explanation, with Wikipedia pages that support it; no passages",
    file="eli5-train-kilt.jsonl or eli5-dev-kilt.jsonl",
    licence=_LICENCE.format("the licence of ELI5 is unknown"),
    home=_HOME,
    citation=f"{_PAPER} Questions: Angela Fan, Yacine Jernite, Ethan Perez, David Grangier, Jason Weston, "
    "Michael Auli. ELI5: Long Form Question Answering. ACL 2019.",
    splits={"train": 272_634, "dev": 1_947},
    metrics=("rougeL", "rouge1", "rouge2"),
    answer_format="long",
)
"""The long-form data set, whose files `read` reads too."""


def read(row: FileRow) -> Item:
    """Returns the question of `row`, in `input` or else `question`; its answers are those of `output`,
    without duplicates.

    `extra` has `provenance`, all entries of the row in order, `titles`, their pages without duplicates, and
    `meta` if it is not empty.
    """
    outputs = read_parts(row, "output", _output, needed=True)
    answers = dict.fromkeys(answer for answer, _ in outputs if answer.strip())
    if outputs and not answers and not row.problems:
        row.problems.append("`output` holds no answer")
    provenance = [entry for _, entries in outputs for entry in entries]
    extra = {
        "provenance": provenance,
        "titles": list(dict.fromkeys(entry["title"] for entry in provenance if entry.get("title"))),
        "meta": row.values.get("meta"),
    }
    question = Question(
        id=row.text("id", number=True),
        question=row.text("input" if "input" in row.values or "question" not in row.values else "question"),
        answers=tuple(answers),
        extra={name: value for name, value in extra.items() if value},
    )
    return question, ()


def _output(output: FileRow) -> tuple[str, list[dict[str, Any]]]:
    """Returns the answer, "" if an entry only adds provenance, and its provenance entries."""
    answer = output.text("answer", needed=False, blank=True)
    return answer, read_parts(output, "provenance", _entry)


def _entry(entry: FileRow) -> dict[str, Any]:
    return entry.values | {"title": entry.text("title", needed=False, blank=True)}
