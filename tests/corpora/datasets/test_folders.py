"""Folders of BEIR and AutoRAG: read, studied, written, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.corpora import datasets
from ragc.corpora.datasets.folders import write_beir
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question
from ragc.task import base
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, vllm
from tests.support.rows import write_rows

RECIPE = recipe_toml(
    search={"knobs": ["top_k"], "trials": 1, "demos": 0, "objectives": ["recall@5"]},
    data={"dataset": "beir", "questions": "set", "dev": 3},
    targets={"main": vllm("http://127.0.0.1:9/v1")},
    metrics=["recall@5", "f1"],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    beir_folder = tmp_path / "set"
    (beir_folder / "qrels").mkdir(parents=True)
    write_rows(
        beir_folder / "corpus.jsonl",
        [
            {"_id": f"p{n}", "title": f"Town {n}", "text": f"Town{n} has {n} towers.", "metadata": {}}
            for n in range(6)
        ],
    )
    write_rows(
        beir_folder / "queries.jsonl",
        [{"_id": f"q{n}", "text": f"How many towers has Town{n}?", "metadata": {}} for n in range(5)],
    )
    judgements = [f"q{n}\tp{n}\t1" for n in range(4)] + ["q0\tp5\t2", "q1\tp4\t0", "q4\tp4\t0"]
    (beir_folder / "qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(judgements) + "\n")
    return beir_folder


def test_queries_have_the_passages_that_are_judged_to_answer_them(folder: Path) -> None:
    loaded = datasets.load("beir", folder)
    assert [question.id for question in loaded.questions] == ["q0", "q1", "q2", "q3"]
    assert loaded.questions[0].gold_ids == ("p0", "p5")
    assert loaded.questions[1].gold_ids == ("p1",)
    assert {question.split for question in loaded.questions} == {"dev"}
    assert loaded.passages[5] == Passage("p5", "Town 5", "Town5 has 5 towers.")
    assert loaded.skipped == ("line 5: no passage is judged to answer it",)


def test_a_study_of_retrieval_runs_on_a_folder_without_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "build_target", lambda spec: ScriptedTarget(lambda request: {"answer": "many"}))
    Path("recipe.toml").write_text(RECIPE)
    evaluation = ragc.evaluate("recipe.toml", split="dev")
    assert evaluation.metrics["recall@5"].mean > 0.8
    assert evaluation.metrics["f1"].mean == 0.0
    with pytest.raises(UsageError, match="1 train questions have no gold answer"):
        ragc.evaluate("recipe.toml", split="dev", sets=["data.train=1"])


def test_what_is_written_is_read_back(folder: Path, tmp_path: Path) -> None:
    Path("recipe.toml").write_text(RECIPE)
    assert ragc.write_beir("recipe.toml", tmp_path / "copy") == 3
    again = datasets.load("beir", tmp_path / "copy")
    before = {question.id: question for question in datasets.load("beir", folder).questions}
    assert all(before[question.id].gold_ids == question.gold_ids for question in again.questions)
    assert again.passages == datasets.load("beir", folder).passages
    with pytest.raises(UsageError, match="is there already"):
        ragc.write_beir("recipe.toml", tmp_path / "copy")


def test_answers_and_odd_ids_survive(tmp_path: Path) -> None:
    odd = Passage('a "b"\tc', "", "text")
    question = Question("q\t1", "Why?", ("so", "thus"), gold_ids=(odd.id,))
    assert write_beir(tmp_path / "out", {"test": [question, Question("q2", "What?", ("x",))]}, [odd]) == 1
    loaded = datasets.load("beir", tmp_path / "out")
    assert (loaded.questions[0].id, loaded.questions[0].answers) == ("q\t1", ("so", "thus"))
    assert loaded.questions[0].gold_ids == (odd.id,)
    with pytest.raises(UsageError, match="No question names a gold passage"):
        write_beir(tmp_path / "none", {"test": [Question("q", "What?", ("x",))]}, [odd])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", '{"_id": "p0#0", "text": "t"}\n', "ends in '#0'"),
        ("corpus.jsonl", "{", "line 1: not JSON"),
        ("queries.jsonl", '{"_id": "q0", "txt": "x"}\n', "`text` is missing"),
        (
            "qrels/dev.tsv",
            "query-id\tcorpus-id\tscore\nq0\tp9\t1\n",
            "`gold_ids` names 'p9', not in the corpus",
        ),
        ("qrels/dev.tsv", "query-id\tcorpus-id\tscore\nq0\tp1\tyes\n", "`score` should be a valid integer"),
        ("qrels/dev.tsv", "q0\tp1\t1\nq1\tp1\t1\n", "qrels/dev.tsv, line 2: `query-id` is missing"),
        ("qrels/dev.tsv", "query-id\tcorpus-id\tscore\nq0\tp1\t0\n", "no passage is judged to answer it"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\tp1\t1\n", "is in the split 'dev' too"),
    ],
)
def test_what_is_wrong_is_said_with_its_file(folder: Path, file: str, content: str, message: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(DataError) as caught:
        datasets.load("beir", folder)
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


@pytest.mark.parametrize("name", ["beir", "autorag"])
def test_another_folder_or_a_file_is_refused_in_one_sentence(folder: Path, name: str) -> None:
    for path in (folder / "qrels", folder / "corpus.jsonl", folder / "nowhere"):
        with pytest.raises(DataError, match="is no folder of") as caught:
            datasets.load(name, path)
        assert len(caught.value.problems) == 1
