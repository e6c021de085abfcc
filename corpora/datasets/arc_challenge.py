"""ARC-Challenge: school science questions with options, in the form that OpenBookQA shares."""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, documents, read_part, read_parts
from ragc.corpora.files.row import FileRow, short_repr
from ragc.records import Question

CARD = Card(
    id="arc_challenge",
    about="grade-school science questions with three to five options, hard for word overlap",
    file="ARC-Challenge-Train.jsonl, -Dev.jsonl or -Test.jsonl",
    licence="CC BY-SA 4.0",
    home="https://allenai.org/data/arc",
    citation="Peter Clark, Isaac Cowhey, Oren Etzioni, Tushar Khot, Ashish Sabharwal, Carissa Schoenick, "
    "Oyvind Tafjord. Think you have Solved Question Answering? Try ARC, the AI2 Reasoning "
    "Challenge. arXiv:1803.05457, 2018.",
    splits={"train": 1119, "dev": 299, "test": 1172},
    metrics=("choice_acc",),
    answer_format="choice",
)

LETTERS = ("A", "B", "C", "D", "E")
"""The labels of options; labels from 1 to 5 are converted to letters."""

_READ = ("id", "question", "question_stem", "choices", "answerKey", "ctxs")


def read(row: FileRow) -> Item:
    """Returns a question with its options below it; see `with_options`."""
    return with_options(row, CARD.id)


def with_options(row: FileRow, dataset: str) -> Item:
    """Returns a question whose text ends in its options, one a line as `A. text`; the answer is a letter.

    The official form has `stem` and `choices` in the object `question`. That of Hugging Face, with lists of
    `text` and `label` in `choices`, is read too. Passages come from `ctxs`, as in Self-RAG's files. `extra`
    has the options as `choices`, by letter, and the other fields of the row.
    """
    if isinstance(row.values.get("question"), dict):
        stem_and_options = read_part(row, "question", row.values["question"], _official)
    else:
        stem_and_options = _stem_and_choices(row)
    stem, options = stem_and_options or ("", {})
    key = _letter(row, "answerKey")
    if key and options and key not in options:
        row.problems.append(f"`answerKey` is option {key}, and the options are {', '.join(options)}")
    passages = documents(row, "ctxs", dataset)
    question = Question(
        row.text("id", number=True),
        "\n".join([stem.strip(), *(f"{letter}. {text}" for letter, text in options.items())]),
        (key,),
        context_ids=tuple(passage.id for passage in passages),
        extra={"choices": options} | {name: row.values[name] for name in row.values if name not in _READ},
    )
    return question, passages


def _official(row: FileRow) -> tuple[str, dict[str, str]]:
    options = read_parts(row, "choices", lambda one: (_letter(one, "label"), one.text("text")), needed=True)
    return row.text("stem"), _by_letter(row, options)


def _stem_and_choices(row: FileRow) -> tuple[str, dict[str, str]]:
    stem = row.text("question_stem" if "question_stem" in row.values else "question")
    if "choices" not in row.values:
        row.problems.append("`choices` is missing.")
        return stem, {}
    return stem, read_part(row, "choices", row.values["choices"], _lists) or {}


def _lists(row: FileRow) -> dict[str, str]:
    texts, labels = row.texts("text", needed=True), row.texts("label", needed=True, number=True)
    if len(texts) != len(labels):
        row.problems.append(f"holds {len(texts)} texts and {len(labels)} labels, as many are needed")
    named = [FileRow("", {"label": label}, row.problems) for _, label in row.enumerate_items(list(labels))]
    return _by_letter(row, [(_letter(one, "label"), text) for one, text in zip(named, texts, strict=False)])


def _by_letter(row: FileRow, options: list[tuple[str, str]]) -> dict[str, str]:
    by_letter = dict(options)
    if len(by_letter) < len(options) and not row.problems:
        row.problems.append("two options have the same label")
    return by_letter


def _letter(row: FileRow, name: str) -> str:
    label = row.text(name, number=True).strip()
    if label in ("1", "2", "3", "4", "5"):
        return LETTERS[int(label) - 1]
    if label and label not in LETTERS:
        row.problems.append(
            f"`{name}` is {short_repr(label)}, a letter from A to E or a number from 1 to 5 is needed"
        )
        return ""
    return label
