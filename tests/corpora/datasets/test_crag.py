"""CRAG's questions come with the text of their pages; one without any answer is left out and counted."""

from __future__ import annotations

import bz2
import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora import datasets
from ragc.corpora.datasets import crag
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


EXTRACTED = crag.page_text


@pytest.fixture(autouse=True)
def plain_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are what stands between the first tags, so that these tests need no extractor."""
    monkeypatch.setattr(
        crag, "page_text", lambda page: page.replace("<html><p>", "").replace("</p></html>", "")
    )


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


@pytest.mark.parametrize("answer", ["nan", "NaN", None, " "])
def test_a_question_without_an_answer_is_left_out_and_counted(tmp_path: Path, answer: Any) -> None:
    dataset = load_rows(tmp_path, GOOD, GOOD | {"interaction_id": "2", "answer": answer, "alt_ans": ["nan"]})
    assert [q.id for q in dataset.questions] == ["55b2"]
    assert dataset.skipped == ("line 2: its answer is null or `nan`, and there is no alternative",)


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    short = {name: value for name, value in GOOD.items() if name not in ("answer", "query")}
    with pytest.raises(DataError) as caught:
        load_rows(
            tmp_path,
            short,
            GOOD | {"interaction_id": "2", "answer": True},
            GOOD | {"interaction_id": "3", "search_results": [PAGE | {"page_result": 5}, "x"]},
            GOOD | {"interaction_id": "4", "alt_ans": {"a": 1}, "split": 2},
            GOOD | {"interaction_id": "5", "query_time": ""},
        )
    assert caught.value.problems == (
        "line 1: `answer` is missing.",
        "line 1: `query` is missing. Did you mean 'query_time'?",
        "line 2: `answer` holds true or false, a string is needed",
        "line 3: `search_results[0]`: `page_result` is a number, a string is needed",
        "line 3: `search_results[1]` is a string, an object is needed",
        "line 4: `alt_ans` holds an object, a string is needed",
        "line 4: `split` is 2, 0 or 1 is needed",
        "line 5: `query_time` is empty",
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_ten_real_questions() -> None:
    dataset = datasets.load("crag", DATA / "dev_data.jsonl.bz2")
    first, last = dataset.questions[0], dataset.questions[-1]
    assert (len(dataset.questions), len(dataset.passages)) == (9, 34)
    assert dataset.skipped == ("line 8: its answer is null or `nan`, and there is no alternative",)
    assert {q.split for q in dataset.questions} == {"test"}
    assert (first.id, first.answers) == ("3dbed55e-66a3-4dcd-907d-096f49387e41", ("yes",))
    assert first.query_time == "02/28/2024, 10:04:54 PT"
    assert (last.id, last.answers) == ("1d2e8c37-296a-4309-83a2-e84d66dd4bb0", ("universal pictures",))
    assert last.question == "is dreamworks animation owned by time warner or universal pictures?"


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_a_real_page_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("markdownify")
    monkeypatch.setattr(crag, "page_text", EXTRACTED)
    with bz2.open(DATA / "dev_data.jsonl.bz2", "rt", encoding="utf-8") as lines:
        row = json.loads(next(lines))
    dataset = load_rows(tmp_path, row)
    wikipedia = next(p for p in dataset.passages if p.title == "Microsoft Office 2019 - Wikipedia")
    assert wikipedia.text.startswith("# Microsoft Office 2019")
    assert not any("<script" in p.text or "<div" in p.text for p in dataset.passages)
    assert dataset.questions[0].context_ids == tuple(p.id for p in dataset.passages)
    assert len(dataset.passages) == 4  # one page was found twice
