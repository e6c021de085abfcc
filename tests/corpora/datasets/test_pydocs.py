"""The bundled data set: its counts, its gold passages, and that it is the same every time."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets import pydocs
from ragc.errors import DataError
from tests.support.rows import read_rows

CARD = tomllib.loads(Path(pydocs.__file__).with_suffix(".toml").read_text("utf-8"))
QUESTIONS = pydocs.questions()
PASSAGES = {passage.id: passage for passage in pydocs.passages()}
SPLITS = ("train", "dev", "test")
KINDS = ("one", "two", "false_premise")


def rows() -> list[dict[str, Any]]:
    path = Path(pydocs.__file__).parent / CARD["files"]["questions"]
    return read_rows(path)


def plain(text: str) -> str:
    """Without the double quotes that the reference puts around code."""
    return re.sub(r"\s+", " ", text.replace('"', "")).casefold()


def test_the_card_counts_what_the_file_holds() -> None:
    assert {split: CARD["splits"][split] for split in SPLITS} == Counter(q.split for q in QUESTIONS)
    assert CARD["kinds"] == Counter(q.extra["kind"] for q in QUESTIONS)
    assert CARD["id"] == "pydocs"


def test_first_tenth_and_last_question() -> None:
    assert QUESTIONS[0].answers[0] == "-O"
    assert QUESTIONS[9].answers[0] == "unpackings in a call"
    assert QUESTIONS[-1].answers[0] == "__getattr__ and __setattr__"
    assert [q.id for q in QUESTIONS] == [f"pydocs-{number:03d}" for number in range(1, 301)]


def test_no_question_is_asked_twice() -> None:
    counts = Counter(pydocs.normalise(q.question) for q in QUESTIONS)
    assert [text for text, times in counts.items() if times > 1] == []


def test_splits_share_no_pair_of_evidence_and_answer() -> None:
    seen: dict[tuple[str, str], str] = {}
    for row in rows():
        if row["kind"] == "false_premise":
            continue
        for quote in row["evidence"]:
            pair = (pydocs.normalise(quote), plain(row["answers"][0]))
            assert seen.setdefault(pair, row["split"]) == row["split"], row["id"]


def test_all_gold_passages_exist() -> None:
    for question in QUESTIONS:
        assert question.gold_ids, question.id
        assert set(question.gold_ids) <= PASSAGES.keys(), question.id


def test_questions_of_kind_two_need_two_passages() -> None:
    texts = {pid: f" {pydocs.normalise(passage.text)} " for pid, passage in PASSAGES.items()}
    for row in rows():
        if row["kind"] == "two":
            quotes = [f" {pydocs.normalise(quote)} " for quote in row["evidence"]]
            assert len(quotes) == 2, row["id"]
            assert not any(all(quote in text for quote in quotes) for text in texts.values()), row["id"]


def test_questions_of_kind_one_are_answered_by_their_passage() -> None:
    for question in QUESTIONS:
        if question.extra["kind"] == "one" and question.answers[0] not in {"yes", "no"}:
            (gold,) = question.gold_ids
            text = plain(PASSAGES[gold].text)
            assert any(plain(answer) in text for answer in question.answers), question.id


def test_false_premises_are_answered_as_such() -> None:
    for question in QUESTIONS:
        assert (question.extra["kind"] == "false_premise") == (question.answers == ("invalid question",)), (
            question.id
        )


def test_passages_have_unique_ids_and_texts() -> None:
    passages = pydocs.passages()
    assert len(PASSAGES) == len(passages) > 450
    assert len({pydocs.normalise(passage.text) for passage in passages}) == len(passages)
    assert all(re.fullmatch(r"[a-z-]+/[a-z0-9-]+", passage.id) for passage in passages)
    assert all(passage.title.strip() and passage.text.strip() for passage in passages)


def test_passages_are_of_a_size() -> None:
    words = [len(passage.text.split()) for passage in pydocs.passages()]
    assert max(words) <= pydocs.MAX_WORDS
    assert abs(sum(words) / len(words) - pydocs.TARGET_WORDS) < 10


def test_titles_name_the_headings_from_the_outside_in() -> None:
    titles = {passage.title for passage in pydocs.passages() if passage.id.startswith("try/except-clause")}
    assert titles == {'Compound statements > The "try" statement > "except" clause'}


def test_cutting_again_gives_the_same_corpus() -> None:
    first = pydocs.passages()
    pydocs.passages.cache_clear()
    assert pydocs.passages() == first


def test_evidence_that_no_passage_holds_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows()[0] | {"evidence": ["a sentence that stands nowhere in the reference"]}
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    monkeypatch.setattr(pydocs, "_QUESTIONS", path)
    pydocs.questions.cache_clear()
    with pytest.raises(DataError, match=r"pydocs-001: Python \S+ never says 'a sentence"):
        pydocs.questions()
    pydocs.questions.cache_clear()
