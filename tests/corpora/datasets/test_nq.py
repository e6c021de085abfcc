"""NQ-open's files are read; their questions get ids that follow from their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.nq import CARD, read
from tests.corpora.datasets.common import problems_of, write_lines
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "nq"
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

ROW: dict[str, Any] = {"question": "who wrote it", "answer": ["Ada", "Ada King", "Ada"]}
OTHER: dict[str, Any] = {"question": "when was it written", "answer": ["1843"]}


def write(folder: Path, *rows: Any) -> Path:
    return write_lines(folder / "NQ-open.dev.jsonl", *rows)


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_answers_keep_their_order_and_there_are_no_passages(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW, OTHER))
    assert [(q.question, q.answers) for q in loaded.questions] == [
        ("who wrote it", ("Ada", "Ada King")),
        ("when was it written", ("1843",)),
    ]
    assert loaded.passages == ()
    assert loaded.questions[0].context_ids == loaded.questions[0].gold_ids == ()


def test_a_question_has_the_same_id_wherever_it_stands(tmp_path: Path) -> None:
    first, second = load(CARD, read, write(tmp_path, ROW, OTHER)).questions
    assert load(CARD, read, write(tmp_path, OTHER, ROW)).questions == (second, first)
    assert first.id != second.id


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": 3, "answer": ["x"]}, "`question` is a number, a string is needed"),
        ({"question": "q", "answer": "x"}, "`answer` is a string, a list is needed"),
        ({"question": "q", "answer": []}, "`answer` is an empty list, at least one is needed"),
        ({"question": "q", "answer": ["x", None]}, "`answer[1]` is null, a string is needed"),
        ({"question": "q"}, "`answer` is missing."),
        ({"answer": ["x"]}, "`question` is missing."),
    ],
)
def test_a_wrong_type_or_a_missing_field_is_named(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    assert problems(write(tmp_path, ROW, row)) == (f"line 2: {problem}",)


def test_a_question_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(write(tmp_path, ROW, ROW))
    assert problem.startswith("line 2: the id 'nq-")


@real
def test_the_real_dev_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "NQ-open.dev.jsonl.gz")
    assert (len(loaded.questions), loaded.passages, loaded.skipped) == (CARD.splits["dev"], (), ())
    assert [(q.question, q.answers) for q in (loaded.questions[n] for n in (0, 9, -1))] == [
        ("when was the last time anyone was on the moon", ("14 December 1972 UTC", "December 1972")),
        ("what is the maximum data rate for the 802.11a standard select one", ("54\xa0Mbit/s",)),
        ("what is the meaning of the name comanche", ("enemy",)),
    ]
