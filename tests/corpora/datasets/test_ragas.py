"""Test sets of Ragas: what they become, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora import datasets
from ragc.errors import DataError
from tests.support.rows import write_rows


def test_a_test_set_of_ragas_has_its_contexts_as_gold_passages(tmp_path: Path) -> None:
    row = {
        "user_input": "Who?",
        "reference": "Ada",
        "reference_contexts": ["Ada did.", "Ada did."],
        "persona": "p",
    }
    several = {"user_input": [{"content": "hi", "type": "human"}], "reference": "x"}
    unanswered = {"user_input": "When?", "reference": "", "reference_contexts": []}
    write_rows(tmp_path / "set.jsonl", [row, several, unanswered])
    loaded = datasets.load("ragas", tmp_path / "set.jsonl")
    (question,) = loaded.questions
    assert (question.question, question.answers, question.extra) == ("Who?", ("Ada",), {"persona": "p"})
    assert question.gold_ids == tuple(passage.id for passage in loaded.passages)
    assert [passage.text for passage in loaded.passages] == ["Ada did."]
    assert len(loaded.skipped) == 2


def test_a_csv_of_the_first_versions_spells_lists_as_python_does(tmp_path: Path) -> None:
    lines = [
        "question,contexts,ground_truth,evolution_type",
        "Who?,\"['One text.', 'Two texts.']\",Ada,simple",
    ]
    (tmp_path / "set.csv").write_text("\n".join(lines) + "\n")
    loaded = datasets.load("ragas", tmp_path / "set.csv")
    assert [passage.text for passage in loaded.passages] == ["One text.", "Two texts."]
    assert loaded.questions[0].answers == ("Ada",)
    assert loaded.questions[0].extra == {"evolution_type": "simple"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"reference": "Ada"}, "`user_input` is missing"),
        ({"user_input": "Who?"}, "holds no question of ragas"),
        (
            {"user_input": "Who?", "reference": "Ada", "reference_contexts": [3]},
            "should be a valid dictionary, found 3",
        ),
    ],
)
def test_a_row_of_ragas_that_is_wrong_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write_rows(tmp_path / "set.jsonl", [row])
    with pytest.raises(DataError) as caught:
        datasets.load("ragas", tmp_path / "set.jsonl")
    assert any(message in problem for problem in caught.value.problems), caught.value.problems
