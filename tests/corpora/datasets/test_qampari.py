"""QAMPARI keeps its answers apart in `extra` and offers all aliases as answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.qampari import CARD, read
from tests.corpora.datasets.common import Reader, write_list
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "alce"
GOOD: dict[str, Any] = {
    "id": "799__wikidata_simple__dev", "question": "Which manga did he draw?",
    "answers": [["Heat"], ["Mai", "Mai, the Psychic Girl", ""], ["Heat"]], "answer": "Heat, Mai.",
    "docs": [{"id": "1", "title": "Mai", "text": "A manga."}],
}  # fmt: skip
READER = Reader(CARD, read, "qampari_eval_gtr_top100.json", write_list)
load_rows, problems = READER.load, READER.problems


def test_answers_are_flat_and_the_alias_lists_are_kept(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD)
    (question,), (passage,) = dataset.questions, dataset.passages
    assert (question.id, question.question) == ("799__wikidata_simple__dev", "Which manga did he draw?")
    assert question.answers == ("Heat", "Mai", "Mai, the Psychic Girl")
    assert question.extra == {"answers": GOOD["answers"]}
    assert (passage.title, passage.text, question.context_ids) == ("Mai", "A manga.", (passage.id,))


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        GOOD | {"answers": "Heat"},
        GOOD | {"id": "2", "answers": []},
        GOOD | {"id": "3", "answers": [["Heat"], [7]]},
        GOOD | {"id": "4", "answers": [[""]]},
        {"id": "5", "answers": [["Heat"]]},
        GOOD | {"id": "6", "docs": "none"},
    ) == (
        "item 1: `answers` is a string, a list is needed",
        "item 2: `answers` is an empty list, at least one is needed",
        "item 3: `answers` holds a number, a string or lists of strings are needed",
        "item 4: `answers` holds no text",
        "item 5: `question` is missing.",
        "item 6: `docs` is a string, a list is needed",
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_thousand_real_questions() -> None:
    dataset = load(CARD, read, DATA / "thinkcite_qampari_1000.json.gz")
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert (len(dataset.questions), dataset.passages) == (CARD.splits["dev"], ())
    assert first.question == "What manga was drawn by Ryoichi Ikegami?"
    assert first.answers[:2] == ("Heat", "Mai, the Psychic Girl")
    assert [(q.id, len(q.answers), q.answers[-1]) for q in (first, tenth, last)] == [
        ("799__wikidata_simple__dev", 6, "Strain"),
        ("8__wikitables_composition__dev", 6, "Electric Tower"),
        ("328__wikidata_intersection__dev", 29, "Kaayamkulam Kochunniyude Makan"),
    ]
