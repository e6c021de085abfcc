"""Questions of CRAG come with the text of their pages; those of ARC with their options and a letter."""

from __future__ import annotations

import bz2
import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora import datasets
from ragc.corpora.datasets.base import Dataset
from ragc.errors import DataError
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "crag"
PAGE = {
    "page_name": "Dow Jones", "page_url": "https://a.example/dow", "page_snippet": "The Dow&#x27;s index",
    "page_result": "<html><p>Salesforce rose.</p></html>", "page_last_modified": "Wed, 06 Mar 2024",
}  # fmt: skip
GOOD: dict[str, Any] = {
    "interaction_id": "55b2", "query_time": "03/05/2024, 23:18:31 PT", "domain": "finance",
    "question_type": "multi-hop", "static_or_dynamic": "real-time", "query": "who is the best performer?",
    "answer": "salesforce", "alt_ans": ["crm", "salesforce"], "split": 0, "popularity": "",
    "search_results": [PAGE, PAGE],
}  # fmt: skip


def load_rows(folder: Path, *rows: Any) -> Dataset:
    path = folder / "crag_task_1_and_2_dev_v4.jsonl.bz2"
    path.write_bytes(bz2.compress("\n".join(json.dumps(row) for row in rows).encode()))
    return datasets.load("crag", path)


def test_a_question_its_time_and_its_pages(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD)
    (question,), (passage,) = dataset.questions, dataset.passages
    assert (question.id, question.question) == ("55b2", "who is the best performer?")
    assert question.answers == ("salesforce", "crm")
    assert (question.query_time, question.split) == ("03/05/2024, 23:18:31 PT", "dev")
    assert question.context()["domain"] == "finance"
    assert (passage.title, passage.text) == ("Dow Jones", "Salesforce rose.")
    assert question.context_ids == (passage.id,)
    assert question.extra["pages"] == [
        {"id": passage.id, "url": "https://a.example/dow", "last_modified": "Wed, 06 Mar 2024"}
    ]


def test_a_page_without_text_is_its_snippet_and_one_without_that_is_left_out(tmp_path: Path) -> None:
    pages = [PAGE | {"page_result": ""}, PAGE | {"page_result": "<html><p></p></html>", "page_snippet": " "}]
    (passage,) = load_rows(tmp_path, GOOD | {"search_results": pages}).passages
    assert passage.text == "The Dow's index"


@pytest.mark.parametrize(
    ("answer", "more", "answers"),
    [
        ("invalid question", {}, ("invalid question",)),
        ("nan", {"alt_ans": ["NaN", "crm"]}, ("crm",)),
        (None, {"alt_ans": ["crm"]}, ("crm",)),
        ("none", {}, ("none",)),
        (3696, {"alt_ans": [1.5]}, ("3696", "1.5")),
        ("a", {"alt_ans": None, "alternative_answers": "[]"}, ("a",)),
        ("a", {"alternative_answers": "['b', \"c's\"]"}, ("a", "b", "c's")),
        ("a", {"alternative_answers": "b, c"}, ("a", "b, c")),
        ("a", {"alternative_answers": ""}, ("a",)),
        ("a", {"alternative_answers": "1.50"}, ("a", "1.50")),
        ("a", {"alternative_answers": "True"}, ("a", "True")),
        ("a", {"alternative_answers": "[" * 5000}, ("a", "[" * 5000)),
    ],
)
def test_answers_and_alternatives(
    tmp_path: Path, answer: Any, more: dict[str, Any], answers: tuple[str, ...]
) -> None:
    (question,) = load_rows(tmp_path, GOOD | {"answer": answer, "alt_ans": []} | more).questions
    assert question.answers == answers


@pytest.mark.parametrize("answer", ["nan", None, " "])
def test_a_question_without_an_answer_is_left_out_and_counted(tmp_path: Path, answer: Any) -> None:
    dataset = load_rows(tmp_path, GOOD, GOOD | {"interaction_id": "2", "answer": answer, "alt_ans": ["nan"]})
    assert [q.id for q in dataset.questions] == ["55b2"]
    assert dataset.skipped == ("line 2: no answer says anything",)


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    short = {name: value for name, value in GOOD.items() if name != "query"}
    with pytest.raises(DataError) as caught:
        load_rows(
            tmp_path,
            short,
            GOOD | {"interaction_id": "3", "search_results": [PAGE, "x"]},
            GOOD | {"interaction_id": "4", "split": 2, "query_time": ""},
            GOOD | {"interaction_id": "5", "alt_ans": {"a": 1}},
        )
    assert caught.value.problems == (
        "line 1: `query` is missing. Did you mean 'query_time'?",
        "line 2: `search_results[1]` should be a valid dictionary, found 'x'",
        "line 3: `query_time` is empty, found ''",
        "line 3: `split` should be 0 or 1, found 2",
        "line 4: `answers` is an object, a text is needed",
    )


def test_options_with_numbers_are_those_with_letters(tmp_path: Path) -> None:
    read = []
    for labels in ("ABC", "123"):
        choices = [{"label": label, "text": f"option {n}"} for n, label in enumerate(labels)]
        row = {"id": "q", "question": {"stem": "Which?", "choices": choices}, "answerKey": labels[1]}
        (tmp_path / "test.jsonl").write_text(json.dumps(row))
        read.append(datasets.load("arc_challenge", tmp_path / "test.jsonl"))
    assert read[0] == read[1]
    assert read[0].questions[0].question == "Which?\nA. option 0\nB. option 1\nC. option 2"
    assert read[0].questions[0].answers == ("B",)


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_ten_real_questions() -> None:
    dataset = datasets.load("crag", DATA / "dev_data.jsonl.bz2")
    first, last = dataset.questions[0], dataset.questions[-1]
    assert (len(dataset.questions), len(dataset.passages)) == (9, 34)
    assert dataset.skipped == ("line 8: no answer says anything",)
    assert {q.split for q in dataset.questions} == {"test"}
    assert (first.query_time, first.answers) == ("02/28/2024, 10:04:54 PT", ("yes",))
    assert (last.id, last.answers) == ("1d2e8c37-296a-4309-83a2-e84d66dd4bb0", ("universal pictures",))
    wikipedia = next(p for p in dataset.passages if p.title == "Microsoft Office 2019 - Wikipedia")
    assert wikipedia.text.startswith("# Microsoft Office 2019")
    assert not any("<script" in p.text or "<div" in p.text for p in dataset.passages)
