"""The data set of `make demo`: every question is answered by the name of a built-in that this Python has."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from ragc.corpora.datasets import BUILT_IN, pybuiltins, pydocs
from ragc.errors import DataError

CARD = tomllib.loads(Path(pybuiltins.__file__).with_suffix(".toml").read_text("utf-8"))
PASSAGES = {passage.id: passage for passage in pybuiltins.passages()}
QUESTIONS = pybuiltins.questions()


def test_the_card_names_the_file() -> None:
    assert CARD["id"] in BUILT_IN
    assert (Path(pybuiltins.__file__).parent / CARD["files"]["questions"]).is_file()


def test_ids_questions_and_names_occur_once() -> None:
    assert [q.id for q in QUESTIONS] == [f"pybuiltins-{n:03d}" for n in range(1, len(QUESTIONS) + 1)]
    for texts in ([pydocs.normalise(q.question) for q in QUESTIONS], [q.answers[0] for q in QUESTIONS]):
        assert [text for text, count in Counter(texts).items() if count > 1] == []


def test_the_splits_are_as_large_as_the_card_has_it() -> None:
    sizes = {name: CARD["splits"][name] for name in ("train", "dev", "test")}
    assert Counter(question.split for question in QUESTIONS) == sizes


def test_no_question_contains_its_answer() -> None:
    plain = {q.id: f" {pydocs.normalise(q.question)} " for q in QUESTIONS}
    names = {q.id: q.answers[0].rpartition(".")[2] for q in QUESTIONS}
    hits = [id for id, name in names.items() if f" {pydocs.normalise(name)} " in plain[id]]
    assert hits == []


def test_each_answer_is_in_its_passage() -> None:
    for question in QUESTIONS:
        (gold,) = question.gold_ids
        assert PASSAGES[gold].text.startswith(f"{question.answers[0]}: ")
        assert len(PASSAGES[gold].text) > len(gold) + 10


def test_answers_are_the_ways_to_write_a_name() -> None:
    answers = {question.answers[0]: question.answers for question in QUESTIONS}
    assert answers["str.lstrip"] == ("str.lstrip", "lstrip", "str.lstrip()", "lstrip()")
    assert answers["abs"] == ("abs", "abs()")
    assert answers["IndexError"] == ("IndexError",)


def test_passages_are_short_and_of_every_kind() -> None:
    assert len(PASSAGES) > 180
    assert max(len(p.text.split()) for p in PASSAGES.values()) <= pybuiltins.MAX_WORDS + 1
    assert {PASSAGES[name].title for name in ("str.lstrip", "abs", "dict", "dict.fromkeys", "KeyError")} == {
        "str.lstrip()",
        "abs()",
        "dict",
        "dict.fromkeys()",
        "KeyError",
    }
    assert PASSAGES["KeyError"].text == "KeyError: Mapping key not found."


def test_a_name_that_this_python_lacks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(
        '{"id": "pybuiltins-001", "question": "Which?", "answers": ["a"], "gold_ids": ["str.shout"]}\n'
    )
    monkeypatch.setattr(pybuiltins, "_QUESTIONS", path)
    pybuiltins.questions.cache_clear()
    with pytest.raises(DataError, match=r"names 'str\.shout', not in the corpus"):
        pybuiltins.questions()
    monkeypatch.undo()
    pybuiltins.questions.cache_clear()
