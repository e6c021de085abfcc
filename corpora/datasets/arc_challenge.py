"""ARC-Challenge and OpenBookQA: school science questions with options."""

from __future__ import annotations

from ragc.corpora.datasets.base import Item, passage_of, read_parts
from ragc.corpora.files.row import FileRow, short_repr
from ragc.corpora.files.values import as_json
from ragc.records import Question

LETTERS = ("A", "B", "C", "D", "E")
"""The labels of options; labels from 1 to 5 are converted to letters."""

_READ = ("id", "question", "question_stem", "choices", "answerKey", "ctxs")


def read(row: FileRow, dataset: str) -> Item:
    """Returns a question whose text ends in its options, one a line as `A. text`; the answer is a letter.

    The official form has `stem` and `choices` in the object `question`. That of Hugging Face, with lists of
    `text` and `label` in `choices`, is read too. Passages come from `ctxs`, as in Self-RAG's files. `extra`
    has the options as `choices`, by letter, and the other fields of the row.
    """
    asked = row.values.get("question")
    inner = FileRow(row.location, asked, row.problems) if isinstance(asked, dict) else row
    stem = inner.text(
        "stem" if inner is not row else "question_stem" if "question_stem" in row.values else "question"
    )
    choices = inner.values.get("choices")
    if isinstance(choices, dict) and all(isinstance(choices.get(name), list) for name in ("text", "label")):
        pairs = zip(choices["text"], choices["label"], strict=False)
        inner.values["choices"] = [{"text": text, "label": label} for text, label in pairs]
        if len(choices["text"]) != len(choices["label"]):
            row.problems.append("`choices` has other numbers of texts and of labels")
    options = read_parts(
        inner, "choices", lambda part: (_letter(part, "label"), part.text("text")), needed=True
    )
    by_letter, key = dict(options), _letter(row, "answerKey")
    if len(by_letter) < len(options) and not row.problems:
        row.problems.append("two options have the same label")
    if key and by_letter and key not in by_letter:
        row.problems.append(f"`answerKey` is option {key}, and the options are {', '.join(by_letter)}")
    texts = read_parts(
        row,
        "ctxs",
        lambda part: (part.text("title", needed=False, blank=True), part.text("text", blank=True)),
    )
    passages = [passage_of(dataset, title.strip(), text.strip()) for title, text in texts if text.strip()]
    question = Question(
        row.text("id", number=True),
        "\n".join([stem.strip(), *(f"{letter}. {text}" for letter, text in by_letter.items())]),
        (key,),
        context_ids=tuple(dict.fromkeys(passage.id for passage in passages)),
        extra={"choices": by_letter} | {n: as_json(row.values[n]) for n in row.values if n not in _READ},
    )
    return question, tuple(passages)


def _letter(row: FileRow, name: str) -> str:
    label = row.text(name, number=True).strip()
    if label in ("1", "2", "3", "4", "5"):
        return LETTERS[int(label) - 1]
    if label and label not in LETTERS:
        needed = "a letter from A to E or a number from 1 to 5 is needed"
        row.problems.append(f"`{name}` is {short_repr(label)}, {needed}")
    return label if label in LETTERS else ""
