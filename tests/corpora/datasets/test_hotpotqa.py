"""HotpotQA's files are read as its authors wrote them, in both settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.hotpotqa import CARD, read
from tests.corpora.datasets.common import problems_of, samples, titles
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "hotpotqa" / "orig"
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

ROW: dict[str, Any] = {
    "_id": "5a8b",
    "question": "Who was born first, Ada or Bob?",
    "answer": "Ada",
    "type": "comparison",
    "level": "medium",
    "supporting_facts": [["Bob", 0], ["Ada", 1], ["Ada", 0]],
    "context": [
        ["Ada", ["Ada was a mathematician.", " She was born in 1815."]],
        ["Eve", ["Eve is nobody's sister."]],
        ["Bob", ['Bob wrote for "', 'The Post".']],
    ],
}


def write(folder: Path, *rows: Any, name: str = "hotpot_dev_distractor_v1.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_a_question_comes_with_its_passages_and_the_supporting_ones_are_gold(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW, ROW | {"_id": "5a8c", "type": "bridge", "level": ""}))
    first, second = loaded.questions
    assert (first.id, first.question, first.answers) == ("5a8b", "Who was born first, Ada or Bob?", ("Ada",))
    assert titles(loaded, first.context_ids) == ["Ada", "Eve", "Bob"]
    assert titles(loaded, first.gold_ids) == ["Bob", "Ada"]
    facts = ROW["supporting_facts"]
    assert first.extra == {"type": "comparison", "level": "medium", "supporting_facts": facts}
    assert second.extra == {"type": "bridge", "supporting_facts": facts}
    assert [passage.text for passage in loaded.passages] == [
        "Ada was a mathematician. She was born in 1815.",
        "Eve is nobody's sister.",
        'Bob wrote for "The Post".',
    ]


def test_gold_is_empty_unless_every_supporting_passage_is_there(tmp_path: Path) -> None:
    searched = ROW | {"context": ROW["context"][:2]}
    nothing = ROW | {"_id": "5a8c", "context": []}
    loaded = load(CARD, read, write(tmp_path, searched, nothing))
    assert [len(question.context_ids) for question in loaded.questions] == [2, 0]
    assert [question.gold_ids for question in loaded.questions] == [(), ()]
    assert loaded.questions[0].extra["supporting_facts"] == ROW["supporting_facts"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"_id": 7}, "`_id` is a number, a string is needed"),
        ({"question": " "}, "`question` is empty"),
        ({"answer": ["Ada"]}, "`answer` is a list, a string is needed"),
        ({"type": 1}, "`type` is a number, a string is needed"),
        ({"context": "Ada"}, "`context` is a string, a list is needed"),
        ({"context": None}, "`context` is null, a list is needed"),
        (
            {"context": [*ROW["context"], ["Ada", "text"]]},
            "`context[3]` is not a list of a title and a list of sentences",
        ),
        (
            {"context": [["Ada", [1]], *ROW["context"]]},
            "`context[0]` is not a list of a title and a list of sentences",
        ),
        ({"supporting_facts": []}, "`supporting_facts` is an empty list, at least one is needed"),
        (
            {"supporting_facts": ["Ada"]},
            "`supporting_facts[0]` is a string, a list of a title and a sentence's number is needed",
        ),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems(write(tmp_path, ROW, ROW | {"_id": "5a8c"} | change)) == (f"item 2: {problem}",)


@real
def test_the_real_distractor_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "tirbench_hotpotqa_dev500.jsonl.gz")
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (500, 4947, ())
    assert samples(loaded) == [
        ("5a8c7595554299585d9e36b6", ("Chief of Protocol",), ["Kiss and Tell (1945 film)", "Shirley Temple"]),
        (
            "5ab51dae5542991779162d82",
            ("no",),
            ["Elko Regional Airport", "Gerald R. Ford International Airport"],
        ),
        ("5a8e07185542995085b37389", ("Beatles",), ["Private Music", "Ringo Starr"]),
    ]
    assert loaded.questions[9].question == (
        "Are both Elko Regional Airport and Gerald R. Ford International Airport located in Michigan?"
    )
    assert all(question.gold_ids for question in loaded.questions)


@real
def test_the_real_fullwiki_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "amor_hotpotqa_dev500.json.gz")
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (500, 4920, ())
    film = "LaLee's Kin: The Legacy of Cotton"
    assert samples(loaded) == [
        ("5a7166395542994082a3e814", ("Kansas Song",), []),
        ("5a8574945542997b5ce3fffb", (film,), [film, "Gimme Shelter (1970 film)"]),
        ("5ae81b895542997ec272770c", ("1876",), []),
    ]
    assert sum(1 for question in loaded.questions if question.gold_ids) == 151
    assert sum(1 for question in loaded.questions if not question.context_ids) == 2
