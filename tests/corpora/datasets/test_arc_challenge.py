"""ARC's questions have their options below them and a letter for an answer, whatever the labels are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora import datasets
from ragc.corpora.datasets.arc_challenge import LETTERS, read
from ragc.corpora.files.row import FileRow
from tests.paths import SHARED_DATA
from tests.support.rows import write_rows

DATA = SHARED_DATA / "arc_challenge"

WHOLE = {
    "dev": [("Mercury_SC_407695", ("D",)), ("Mercury_192168", ("D",)), ("Mercury_7082145", ("D",))],
    "test": [("Mercury_7175875", ("C",)), ("MCAS_2003_8_11", ("A",)), ("MEA_2013_8_15", ("A",))],
}
"""Questions 0, 9 and the last one of each split."""


def official(id: str, stem: str, options: dict[str, str], key: str) -> dict[str, Any]:
    """A row of ARC or OpenBookQA."""
    choices = [{"text": text, "label": label} for label, text in options.items()]
    return {"id": id, "question": {"stem": stem, "choices": choices}, "answerKey": key}


@given(
    options=st.lists(st.text(min_size=1).filter(str.strip), min_size=2, max_size=5),
    key=st.integers(0, 4),
)
def test_numbers_and_letters_give_the_same_question(options: list[str], key: int) -> None:
    key %= len(options)
    lettered = official("q", "Which?", dict(zip(LETTERS, options, strict=False)), LETTERS[key])
    numbered = official("q", "Which?", {str(n + 1): text for n, text in enumerate(options)}, str(key + 1))
    rows = [FileRow("line 1", lettered), FileRow("line 1", numbered)]
    first, second = (read(row, "arc_challenge") for row in rows)
    assert first == second
    assert first[0].answers == (LETTERS[key],)
    assert f"\n{LETTERS[key]}. {options[key]}" in first[0].question
    assert not rows[0].problems + rows[1].problems


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_real_questions_in_the_official_form(tmp_path: Path, split: str) -> None:
    with gzip.open(DATA / "arc_challenge.json.gz", "rt", encoding="utf-8") as file:
        rows = json.load(file)[split]
    path = tmp_path / "ARC-Challenge-Test.jsonl"
    write_rows(path, (official(r["id"], r["question"], r["choices"], r["answer"]) for r in rows))
    dataset = datasets.load("arc_challenge", path)
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert len(dataset.questions) == datasets.card("arc_challenge").splits[split]
    assert [(q.id, q.answers) for q in (first, tenth, last)] == WHOLE[split]
    assert {answer for q in dataset.questions for answer in q.answers} <= set(LETTERS)
    for question, row in zip(dataset.questions, rows, strict=True):
        choices = question.extra["choices"]
        assert isinstance(choices, dict)
        assert choices[question.answers[0]] == row["choices"][row["answer"]]


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_real_questions_of_openbookqa_in_the_official_form(tmp_path: Path) -> None:
    lines = (SHARED_DATA / "openbookqa/questions_test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    path = tmp_path / "test.jsonl"
    write_rows(path, (official(r["id"], r["question"], r["choices"], r["answer"]) for r in rows))
    found = datasets.load("openbookqa", path).questions
    assert len(found) == datasets.card("openbookqa").splits["test"]
    assert found[0].question.endswith("\nC. buy less with monopoly money\nD. have lunch with friends")
    assert [(found[at].id, found[at].answers) for at in (0, 9, -1)] == [
        ("obqa-test-000", ("B",)), ("obqa-test-009", ("B",)), ("obqa-test-499", ("C",)),
    ]  # fmt: skip
