"""OpenBookQA is read in the form it shares with ARC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.openbookqa import CARD, read
from ragc.errors import DataError
from tests.corpora.datasets.common import Reader, official
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "openbookqa"


GOOD = official("7-980", "The sun is responsible for", {"A": "puppies", "B": "plants"}, "B")
READER = Reader(CARD, read, "test.jsonl")
load_rows = READER.load


def test_the_main_and_the_complete_files(tmp_path: Path) -> None:
    fact = {"fact1": "the sun is the source of energy", "humanScore": "1.00"}
    (plain,) = load_rows(tmp_path, GOOD).questions
    (whole,) = load_rows(tmp_path, GOOD | fact).questions
    assert plain.id == whole.id == "7-980"
    assert plain.question == whole.question == "The sun is responsible for\nA. puppies\nB. plants"
    assert plain.answers == whole.answers == ("B",)
    assert plain.extra == {"choices": {"A": "puppies", "B": "plants"}}
    assert whole.extra == {**plain.extra, **fact}


def test_the_lists_of_hugging_face(tmp_path: Path) -> None:
    choices = {"text": ["puppies", "plants"], "label": ["A", "B"]}
    row = {"id": "7-980", "question_stem": GOOD["question"]["stem"], "choices": choices, "answerKey": "B"}
    assert load_rows(tmp_path, row).questions == load_rows(tmp_path, GOOD).questions


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    rows = [GOOD | {"answerKey": 9}, GOOD | {"id": ["x"]}, {"id": "q", "question": {}, "answerKey": "A"}]
    path.write_text("\n".join([*map(json.dumps, rows), json.dumps(GOOD)[:-20]]), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load(CARD, read, path)
    *wrong, truncated = caught.value.problems
    assert wrong == [
        "line 1: `answerKey` is '9', a letter from A to E or a number from 1 to 5 is needed",
        "line 2: `id` is a list, a string is needed",
        "line 3: `question`: `choices` is missing.",
        "line 3: `question`: `stem` is missing.",
    ]
    assert truncated.startswith("line 4: not JSON")


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_real_test_questions_in_the_official_form(tmp_path: Path) -> None:
    lines = (DATA / "questions_test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    dataset = load_rows(
        tmp_path, *(official(r["id"], r["question"], r["choices"], r["answer"]) for r in rows)
    )
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert len(dataset.questions) == CARD.splits["test"]
    assert first.question.endswith("\nB. quit eating lunch out\nC. buy less with monopoly money\n"
                                   "D. have lunch with friends")  # fmt: skip
    assert [(q.id, q.answers) for q in (first, tenth, last)] == [
        ("obqa-test-000", ("B",)), ("obqa-test-009", ("B",)), ("obqa-test-499", ("C",)),
    ]  # fmt: skip
