"""ARC's questions have their options below them and a letter for an answer, whatever the labels are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.datasets.arc_challenge import CARD, LETTERS, read
from ragc.corpora.datasets.base import load
from ragc.corpora.files.row import FileRow
from tests.corpora.datasets.common import Reader, official
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "arc_challenge"

WHOLE = {
    "dev": [("Mercury_SC_407695", ("D",)), ("Mercury_192168", ("D",)), ("Mercury_7082145", ("D",))],
    "test": [("Mercury_7175875", ("C",)), ("MCAS_2003_8_11", ("A",)), ("MEA_2013_8_15", ("A",))],
}
"""Questions 0, 9 and the last one of each split."""


GOOD = official("Mercury_1", "What is hot?", {"A": "the sun", "B": "ice", "C": "snow", "D": "rain"}, "A")
READER = Reader(CARD, read, "ARC-Challenge-Test.jsonl")
load_rows, problems = READER.load, READER.problems


def test_the_options_stand_below_the_question(tmp_path: Path) -> None:
    (question,) = load_rows(tmp_path, GOOD).questions
    assert question.id == "Mercury_1"
    assert question.question == "What is hot?\nA. the sun\nB. ice\nC. snow\nD. rain"
    assert question.answers == ("A",)
    assert question.extra == {"choices": {"A": "the sun", "B": "ice", "C": "snow", "D": "rain"}}


@given(
    options=st.lists(st.text(min_size=1).filter(str.strip), min_size=2, max_size=5),
    key=st.integers(0, 4),
)
def test_numbers_and_letters_give_the_same_question(options: list[str], key: int) -> None:
    key %= len(options)
    lettered = official("q", "Which?", dict(zip(LETTERS, options, strict=False)), LETTERS[key])
    numbered = official("q", "Which?", {str(n + 1): text for n, text in enumerate(options)}, str(key + 1))
    rows = [FileRow("line 1", lettered), FileRow("line 1", numbered)]
    first, second = (read(row) for row in rows)
    assert first == second
    assert first[0].answers == (LETTERS[key],)
    assert f"\n{LETTERS[key]}. {options[key]}" in first[0].question
    assert not rows[0].problems + rows[1].problems


def test_the_lists_of_hugging_face_and_the_passages_of_self_rag(tmp_path: Path) -> None:
    row = {
        "id": "q", "question": "What is hot?", "answerKey": "2",
        "choices": {"text": ["ice", "the sun"], "label": ["1", "2"]},
        "ctxs": [{"id": "5", "title": "Sun", "text": "It is hot.", "score": "1.6"}, {"text": "No title."}],
    }  # fmt: skip
    dataset = load_rows(tmp_path, row)
    (question,) = dataset.questions
    assert (question.question, question.answers) == ("What is hot?\nA. ice\nB. the sun", ("B",))
    assert [(p.title, p.text) for p in dataset.passages] == [("Sun", "It is hot."), ("", "No title.")]
    assert question.context_ids == tuple(p.id for p in dataset.passages)


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    twice = [{"text": "x", "label": "A"}, {"text": "y", "label": "1"}]
    assert problems(
        tmp_path,
        GOOD | {"answerKey": "E"},
        GOOD | {"answerKey": "yes"},
        GOOD | {"question": {"choices": [{"label": "A"}, "B"]}},
        GOOD | {"question": {"stem": "?", "choices": twice}},
        GOOD | {"question": 7, "choices": {"text": ["x"], "label": ["A", "B"]}},
        {"id": "q", "question": "?", "answerKey": "A"},
        {"question": {"stem": "?", "choices": []}},
    ) == (
        "line 1: `answerKey` is option E, and the options are A, B, C, D",
        "line 2: `answerKey` is 'yes', a letter from A to E or a number from 1 to 5 is needed",
        "line 3: `question`: `choices[0]`: `text` is missing.",
        "line 3: `question`: `choices[1]` is a string, an object is needed",
        "line 3: `question`: `stem` is missing.",
        "line 4: `question`: two options have the same label",
        "line 5: `question` is a number, a string is needed",
        "line 5: `choices`: holds 1 texts and 2 labels, as many are needed",
        "line 6: `choices` is missing.",
        "line 7: `question`: `choices` is an empty list, at least one is needed",
        "line 7: `answerKey` is missing.",
        "line 7: `id` is missing.",
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_first_hundred_test_questions_with_passages() -> None:
    dataset = load(CARD, read, DATA / "s2rag_arc_challenge_100_ctxs.jsonl.gz")
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert len(dataset.questions) == 100
    assert first.question.startswith("An astronomer observes that a planet rotates faster")
    assert first.question.endswith("\nD. Planetary gravity will become stronger.")
    assert [(q.id, q.answers) for q in (first, tenth, last)] == [
        *WHOLE["test"][:2],
        ("Mercury_SC_417677", ("B",)),
    ]
    assert sum(len(q.context_ids) for q in dataset.questions) == 1999  # one has a passage twice
    assert dataset.passages[0].title == "Rotation"


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_real_questions_in_the_official_form(tmp_path: Path, split: str) -> None:
    with gzip.open(DATA / "arc_challenge.json.gz", "rt", encoding="utf-8") as file:
        rows = json.load(file)[split]
    dataset = load_rows(
        tmp_path, *(official(r["id"], r["question"], r["choices"], r["answer"]) for r in rows)
    )
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert len(dataset.questions) == CARD.splits[split]
    assert [(q.id, q.answers) for q in (first, tenth, last)] == WHOLE[split]
    assert {answer for q in dataset.questions for answer in q.answers} <= set(LETTERS)
    for question, row in zip(dataset.questions, rows, strict=True):
        choices = question.extra["choices"]
        assert isinstance(choices, dict)
        assert choices[question.answers[0]] == row["choices"][row["answer"]]
