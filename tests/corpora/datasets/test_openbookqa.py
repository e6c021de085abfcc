"""OpenBookQA is read in the form it shares with ARC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.corpora.datasets.openbookqa import CARD, read
from tests.corpora.datasets.common import Reader, official
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "openbookqa"


READER = Reader(CARD, read, "test.jsonl")
load_rows = READER.load


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
