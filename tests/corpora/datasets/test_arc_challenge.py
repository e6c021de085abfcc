"""ARC's questions have their options below them and a letter for an answer, whatever the labels are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.datasets.arc_challenge import LETTERS, read
from ragc.corpora.files.rows import FileRow


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
    assert first
    assert first == second
    assert first[0].answers == (LETTERS[key],)
    assert f"\n{LETTERS[key]}. {options[key]}" in first[0].question
    assert not rows[0].problems + rows[1].problems
