"""ASQA is read from ALCE's files and from the official fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.asqa import CARD, read
from ragc.corpora.datasets.base import load
from tests.corpora.datasets.common import Reader, write_list
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "alce"
PAIRS = [
    {"question": "When was it shown?", "short_answers": ["2007", "January 2007"], "context": "No context",
     "wikipage": None},
    {"question": "When was it sold?", "short_answers": ["June 2007", "2007", ""]},
]  # fmt: skip
WRITTEN = [
    {"long_answer": "Shown in January 2007, sold in June.", "knowledge": []},
    {"long_answer": "It was sold in June 2007.", "knowledge": [{"content": "x", "wikipage": None}]},
]
ALCE: dict[str, Any] = {
    "sample_id": "-881", "question": "When did it come out?", "qa_pairs": PAIRS, "annotations": WRITTEN,
    "answer": "Shown in January 2007, sold in June.", "wikipages": [],
    "docs": [
        {"id": "9", "title": "iPhone", "text": "Sold in June.", "score": 1.5},
        {"title": "Empty", "text": ""},
        {"title": "iPhone", "text": "Sold in June."},
    ],
}  # fmt: skip
READER = Reader(CARD, read, "asqa_eval_gtr_top100.json", write_list)
load_rows, problems = READER.load, READER.problems


def test_short_answers_sub_questions_and_documents(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, ALCE)
    (question,), (passage,) = dataset.questions, dataset.passages
    assert (question.id, question.question) == ("-881", "When did it come out?")
    assert question.answers == ("2007", "January 2007", "June 2007")
    assert question.context()["sub_questions"] == ["When was it shown?", "When was it sold?"]
    assert question.extra == {
        "qa_pairs": PAIRS,
        "long_answers": ["Shown in January 2007, sold in June.", "It was sold in June 2007."],
    }
    assert (passage.title, passage.text) == ("iPhone", "Sold in June.")
    assert question.context_ids == (passage.id,)


def test_the_official_fields_say_the_same(tmp_path: Path) -> None:
    row = {"id": -881, "ambiguous_question": ALCE["question"], "qa_pairs": PAIRS, "annotations": WRITTEN}
    dataset = load_rows(tmp_path, row)
    (alce,) = load_rows(tmp_path, ALCE | {"docs": []}).questions
    assert dataset.questions == (alce,)
    assert dataset.questions[0].extra == alce.extra
    assert dataset.passages == ()


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        {name: value for name, value in ALCE.items() if name != "qa_pairs"},
        ALCE | {"sample_id": "2", "qa_pairs": [{"short_answers": 5}], "annotations": ["x"]},
        ALCE | {"sample_id": "3", "qa_pairs": [{"question": "?", "short_answers": [" "]}]},
        ALCE | {"sample_id": "4", "docs": [{"title": 1, "text": "t"}, {}]},
        ALCE | {"sample_id": None},
    ) == (
        "item 1: `qa_pairs` is missing.",
        "item 2: `qa_pairs[0]`: `question` is missing.",
        "item 2: `qa_pairs[0]`: `short_answers` holds a number, a string or lists of strings are needed",
        "item 2: `annotations[0]` is a string, an object is needed",
        "item 3: no `short_answers` of its `qa_pairs` holds a text",
        "item 4: `docs[0]`: `title` is a number, a string is needed",
        "item 4: `docs[1]`: `text` is missing.",
        "item 5: `sample_id` is null, a string is needed",
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_four_hundred_real_questions() -> None:
    dataset = load(CARD, read, DATA / "asqa_dev400_htmlrag.jsonl.gz")
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert (len(dataset.questions), dataset.skipped, dataset.passages) == (400, (), ())
    assert sum(len(q.context()["sub_questions"]) for q in dataset.questions) == 1348
    assert (first.id, first.question) == ("8793099883447006698", "When was the first apple i phone made?")
    assert first.answers[:2] == ("June 29, 2007", "2004")
    assert [(q.id, q.answers) for q in (tenth, last)] == [
        ("4131723857510142703", ("2390", "1092", "11,437")),
        (
            "4198094437803531947",
            ("Harry Styles", "Jeff Bhasker", "Alex Salibian", "Mitch Rowland", "Tyler Johnson", "Ryan Nasci"),
        ),
    ]
