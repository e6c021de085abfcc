"""MuSiQue's files are read; what its paragraphs do not answer is left out and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.musique import CARD, read
from tests.corpora.datasets.common import problems_of, samples, titles, write_lines
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "musique" / "orig"
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

STEPS = [{"id": 1, "question": "Who founded it?", "answer": "Ada", "paragraph_support_idx": 1}]
PARAGRAPHS = [
    {"idx": 0, "title": "Other", "paragraph_text": "Another text.", "is_supporting": False},
    {"idx": 1, "title": "Works", "paragraph_text": "Ada founded the works.", "is_supporting": True},
    {"idx": 2, "title": "Ada", "paragraph_text": "Ada was born in London.", "is_supporting": True},
]
ROW: dict[str, Any] = {
    "id": "2hop__1_2",
    "paragraphs": PARAGRAPHS,
    "question": "Where was the founder of the works born?",
    "question_decomposition": STEPS,
    "answer": "London",
    "answer_aliases": ["London, England", "London"],
    "answerable": True,
}


def write(folder: Path, *rows: Any) -> Path:
    return write_lines(folder / "musique_ans_v1.0_dev.jsonl", *rows)


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_the_answer_comes_first_and_supporting_paragraphs_are_gold(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW))
    (question,) = loaded.questions
    assert (question.id, question.question) == ("2hop__1_2", ROW["question"])
    assert question.answers == ("London", "London, England")
    assert titles(loaded, question.context_ids) == ["Other", "Works", "Ada"]
    assert titles(loaded, question.gold_ids) == ["Works", "Ada"]
    assert question.extra == {"question_decomposition": STEPS}
    assert loaded.passages[1].text == "Ada founded the works."


def test_the_steps_that_lead_to_the_answer_are_not_told_to_programs(tmp_path: Path) -> None:
    (question,) = load(CARD, read, write(tmp_path, ROW)).questions
    assert set(question.context()) == {"id", "context_ids"}


def test_an_unanswerable_twin_is_left_out_and_counted(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW, ROW | {"answerable": False}))
    assert [question.id for question in loaded.questions] == ["2hop__1_2"]
    rule = "a question that its paragraphs do not answer is left out (`answerable` is false)"
    assert loaded.skipped == (f"line 2: {rule}",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": 3}, "`id` is a number, a string is needed"),
        ({"answer": ""}, "`answer` is empty"),
        ({"answer_aliases": "London"}, "`answer_aliases` is a string, a list is needed"),
        ({"answer_aliases": ["London", 5]}, "`answer_aliases[1]` is a number, a string is needed"),
        ({"answerable": "false"}, "`answerable` is a string, true or false is needed"),
        ({"paragraphs": []}, "`paragraphs` is an empty list, at least one is needed"),
        ({"paragraphs": [*PARAGRAPHS, "text"]}, "`paragraphs[3]` is a string, an object is needed"),
        (
            {"paragraphs": [*PARAGRAPHS, PARAGRAPHS[0] | {"paragraph_text": 1}]},
            "`paragraphs[3]`: `paragraph_text` is a number, a string is needed",
        ),
        (
            {"paragraphs": [PARAGRAPHS[0] | {"is_supporting": 1}]},
            "`paragraphs[0]`: `is_supporting` is neither true nor false",
        ),
        ({"question_decomposition": {}}, "`question_decomposition` is an object, a list is needed"),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems(write(tmp_path, ROW, ROW | {"id": "2hop__1_3"} | change)) == (f"line 2: {problem}",)


@real
def test_the_real_dev_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "migres_musique_dev200.jsonl.gz")
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (200, 3141, ())
    assert samples(loaded) == [
        (
            "2hop__574419_270105",
            ("Stanley",),
            ["Mountrail County Courthouse", "Van Hook Township, Mountrail County, North Dakota"],
        ),
        ("2hop__135653_669373", ("Charles University",), ["Mach's principle", "Vinko Dvořák"]),
        (
            "3hop1__389761_567566_84283",
            ("Warner Music Group", "Warner Music"),
            ["Warner Records", "Another Page", "Back of My Mind"],
        ),
    ]
    assert loaded.questions[9].question == (
        "Who is the employer of the person Mach's principle was named after?"
    )


@real
def test_the_real_train_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "hipporag_musique_train100.json.gz")
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (100, 1890, ())
    held = [(q.id, q.answers) for q in (loaded.questions[n] for n in (0, 9, -1))]
    treaty = "Treaty on the Functioning of the European Union"
    assert held == [
        ("2hop__150763_14904", ("G. Stanley Hall", "Stanley Hall")),
        ("2hop__479193_63835", (f"the {treaty}", treaty, "TFEU", treaty.replace("Func", "func"))),
        ("2hop__131644_88123", ("Dec. 10, 1817",)),
    ]
    assert all(len(question.context_ids) == 20 for question in loaded.questions)
