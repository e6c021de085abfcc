"""ELI5's questions have one long answer, claims of it, and an id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.eli5 import CARD, read
from tests.corpora.datasets.common import Reader, write_list
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "alce"
GOOD: dict[str, Any] = {
    "question": "How does trash end up in the ocean?", "question_ctx": "[removed]",
    "answer": "Water flows downhill.", "claims": ["Water flows downhill.", "Rivers end in oceans."],
    "docs": [{"title": "River", "text": "Rivers flow.", "url": "http://x"}],
}  # fmt: skip
READER = Reader(CARD, read, "eli5_eval_bm25_top100.json", write_list)
load_rows, problems = READER.load, READER.problems


def test_the_answer_its_claims_and_the_documents(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD)
    (question,), (passage,) = dataset.questions, dataset.passages
    assert (question.question, question.answers) == (GOOD["question"], ("Water flows downhill.",))
    assert question.extra == {"claims": GOOD["claims"], "question_ctx": "[removed]"}
    assert (passage.title, passage.text, question.context_ids) == ("River", "Rivers flow.", (passage.id,))


def test_an_id_is_made_of_the_question_where_there_is_none(tmp_path: Path) -> None:
    first, second = load_rows(tmp_path, GOOD, GOOD | {"question": "Why is it blue?"}).questions
    (again,) = load_rows(tmp_path, GOOD | {"answer": "It rains.", "claims": []}).questions
    (named,) = load_rows(tmp_path, GOOD | {"id": "1oy5tc"}).questions
    assert first.id != second.id
    assert again.id == first.id
    assert named.id == "1oy5tc"
    assert "was used before" in problems(tmp_path, GOOD, GOOD)[0]


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        GOOD | {"answer": ""},
        {"question": "?", "answers": ["x"]},
        GOOD | {"question": None, "claims": ["a", 3]},
    ) == (
        "item 1: `answer` is empty",
        "item 2: `answer` is missing. Did you mean 'answers'?",
        "item 3: `question` is null, a string is needed",
        "item 3: `claims[1]` is a number, a string is needed",
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_thousand_real_questions() -> None:
    dataset = load(CARD, read, DATA / "thinkcite_eli5_1000.json.gz")
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert (len(dataset.questions), dataset.passages) == (CARD.splits["ALCE"], ())
    assert first.question.startswith("How are firms like snapchat, uber etc valued so highly")
    assert first.answers[0].startswith("Yes. Did you watch The Social Network?")
    assert [q.id for q in (first, tenth, last)] == [
        "eli5-59ae6fc7e5e3",
        "eli5-38b8e5975e4c",
        "eli5-c57f78e08ad2",
    ]
    assert tenth.question.startswith("Why some people believe they look attrac")
    assert last.question.startswith("How is hiring famous people for commerci")
    assert all(len(q.extra["claims"]) == 3 for q in dataset.questions if isinstance(q.extra["claims"], list))
