"""2WikiMultiHopQA's files are read, nested fields as JSON or as JSON text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.wikimultihop import CARD, NESTED, read
from tests.corpora.datasets.common import problems_of, samples, titles
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "2wikimultihopqa" / "orig"
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

ROW: dict[str, Any] = {
    "_id": "8813",
    "type": "compositional",
    "question": "Who is the mother of the director of film Polish-Russian War?",
    "context": [
        ["Xawery", ["Xawery is a director.", "He is the son of Małgorzata."]],
        ["Polish-Russian War", ["Polish-Russian War is a film by Xawery."]],
        ["Xawery", ["Another man of that name."]],
        ["Other", ["Another film."]],
    ],
    "entity_ids": "Q7_Q8",
    "supporting_facts": [["Polish-Russian War", 0], ["Xawery", 1]],
    "evidences": [["Polish-Russian War", "director", "Xawery"], ["Xawery", "mother", "Małgorzata"]],
    "answer": "Małgorzata",
    "evidences_id": [],
    "answer_id": None,
}


def write(folder: Path, *rows: Any, name: str = "dev.json") -> Path:
    path = folder / name
    lines = name.endswith(".jsonl")
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_a_question_comes_with_its_passages_and_the_supporting_ones_are_gold(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW))
    (question,) = loaded.questions
    assert (question.id, question.question, question.answers) == ("8813", ROW["question"], ("Małgorzata",))
    assert titles(loaded, question.context_ids) == ["Xawery", "Polish-Russian War", "Xawery", "Other"]
    assert titles(loaded, question.gold_ids) == ["Polish-Russian War", "Xawery", "Xawery"]
    assert loaded.passages[0].text == "Xawery is a director. He is the son of Małgorzata."
    extra_fields = ("type", "entity_ids", "supporting_facts", "evidences", "evidences_id")
    assert question.extra == {name: ROW[name] for name in extra_fields}


def test_json_text_in_a_field_is_read_as_what_it_spells(tmp_path: Path) -> None:
    spelled = ROW | {name: json.dumps(ROW[name]) for name in NESTED}
    plain = load(CARD, read, write(tmp_path, ROW))
    assert load(CARD, read, write(tmp_path, spelled, name="dev.jsonl")) == plain
    del spelled["_id"]
    assert load(CARD, read, write(tmp_path, spelled | {"id": "8813"}, name="dev.jsonl")) == plain


def test_notes_of_others_in_a_row_are_not_told_to_programs(tmp_path: Path) -> None:
    noted = ROW | {"qa_pairs": [{"question": "Who directed it?", "answer": "Xawery"}]}
    (question,) = load(CARD, read, write(tmp_path, noted)).questions
    assert set(question.context()) == {"id", "context_ids"}


@pytest.mark.parametrize("context", [None, [], "[]"])
def test_a_question_without_passages_is_left_out_and_counted(tmp_path: Path, context: object) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW, ROW | {"_id": "8814", "context": context}))
    assert [question.id for question in loaded.questions] == ["8813"]
    rule = "a question without passages is left out (`context` is missing or empty)"
    assert loaded.skipped == (f"item 2: {rule}",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"_id": 7}, "`_id` is a number, a string is needed"),
        ({"answer": None}, "`answer` is null, a string is needed"),
        ({"context": '[["Xawery", ["Xaw'}, "`context` is a string, a list is needed"),
        ({"context": '[["Xawery", [NaN]]]'}, "`context` is a string, a list is needed"),
        ({"context": {"title": []}}, "`context` is an object, a list is needed"),
        ({"context": [["Xawery"]]}, "`context[0]` is not a list of a title and a list of sentences"),
        ({"evidences": 3}, "`evidences` is a number, a list is needed"),
        ({"supporting_facts": "{}"}, "`supporting_facts` is an object, a list is needed"),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    complaints = problems(write(tmp_path, ROW, ROW | {"_id": "8814"} | change))
    assert set(complaints) == {f"item 2: {problem}"}


@real
def test_the_real_dev_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "migres_wikihop_dev200.jsonl.gz")
    assert (len(loaded.questions), len(loaded.passages), len(loaded.skipped)) == (164, 1294, 36)
    assert samples(loaded) == [
        (
            "b088d3ca08e211ebbda4ac1f6bf848b6",
            ("Free Guy",),
            ["Forbidden Ground", "Free Guy", "Pál Gábor", "Shawn Levy"],
        ),
        (
            "6392cf220bde11eba7f7acde48001122",
            ("Flora",),
            ["Henrik Selberg", "Ole Michael Ludvigsen Selberg"],
        ),
        (
            "6d1b9cfc08b611ebbd88ac1f6bf848b6",
            ("Jackass Mail",),
            ["Three Little Sew and Sews", "Jackass Mail", "Del Lord", "Norman Z. McLeod"],
        ),
    ]
    assert loaded.questions[9].question == "What is the place of birth of Henrik Selberg's father?"


@real
def test_the_real_train_questions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "train.json.gz"  # a JSON list, as the official file is
    path.symlink_to(DATA / "migres_wikihop_train500.jsonl.gz")
    loaded = load(CARD, read, path)
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (500, 3112, ())
    held = [(q.id, q.answers, len(q.gold_ids)) for q in (loaded.questions[n] for n in (0, 9, -1))]
    assert held == [
        ("93402dbc0bdb11eba7f7acde48001122", ("October 5, 1987",), 2),
        ("2f472466097711ebbdb0ac1f6bf848b6", ("no",), 2),
        ("184f4014087c11ebbd69ac1f6bf848b6", ("Oklahoma Renegades",), 4),
    ]
    # Some rows hold one of their ten passages twice.
    assert {len(question.context_ids) for question in loaded.questions} == {8, 9, 10}
