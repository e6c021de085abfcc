"""Test sets of Ragas and folders of AutoRAG: what they become, and what is wrong with them."""

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
        ({"reference": "Ada"}, "`question` is missing"),
        ({"user_input": "Who?"}, "the file holds no question of ragas"),
        ({"user_input": "Who?", "reference": "Ada", "reference_contexts": [3]}, "an object is needed"),
    ],
)
def test_a_row_of_ragas_that_is_wrong_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write_rows(tmp_path / "set.jsonl", [row])
    with pytest.raises(DataError) as caught:
        datasets.load("ragas", tmp_path / "set.jsonl")
    assert any(message in problem for problem in caught.value.problems), caught.value.problems


QA = {"qid": "q0", "query": "Who?", "retrieval_gt": [["d0"], ["d1"]], "generation_gt": ["Ada", "A."]}
CORPUS = [
    {"doc_id": f"d{n}", "contents": f"Text {n}.", "metadata": {"title": "T" if n else None, "page": n}}
    for n in range(3)
]


def autorag(folder: Path, qa: list[dict[str, Any]], corpus: list[dict[str, Any]]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(qa), folder / "qa.parquet")
    parquet.write_table(pa.Table.from_pylist(corpus), folder / "corpus.parquet")
    return folder


def test_a_folder_of_autorag_has_all_its_passages(tmp_path: Path) -> None:
    loaded = datasets.load(
        "autorag", autorag(tmp_path, [QA, {**QA, "qid": "q1", "generation_gt": []}], CORPUS)
    )
    (question,) = loaded.questions
    assert (question.answers, question.gold_ids) == (("Ada", "A."), ("d0", "d1"))
    assert [(passage.id, passage.title) for passage in loaded.passages] == [
        ("d0", ""),
        ("d1", "T"),
        ("d2", "T"),
    ]
    assert len(loaded.skipped) == 1


@pytest.mark.parametrize(
    ("qa", "message"),
    [
        ({**QA, "retrieval_gt": [["d9"]]}, "`gold_ids` names 'd9', not in the corpus"),
        ({"qid": "q", "query": "Who?", "retrieval_gt": [["d0"]]}, "`answers` is missing"),
    ],
)
def test_a_folder_of_autorag_that_is_wrong_is_named(tmp_path: Path, qa: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        datasets.load("autorag", autorag(tmp_path, [qa], CORPUS))
    assert any(message in problem for problem in caught.value.problems), caught.value.problems


def test_a_damaged_table_of_autorag_is_one_problem(tmp_path: Path) -> None:
    autorag(tmp_path, [QA], CORPUS)
    (tmp_path / "qa.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(DataError, match="is no Parquet file"):
        datasets.load("autorag", tmp_path)
