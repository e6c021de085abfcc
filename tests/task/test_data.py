"""What a recipe's data comes to: splits and the passages of sources, from files of ours and official ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.errors import UsageError
from ragc.store.calls import CallStore
from ragc.task.base import Task, prepare
from ragc.testing import ScriptedTarget

RECIPE = """
program = "vanilla"
[data]
dataset = "{dataset}"
questions = "{file}"
dev = 2
test = 1
[sources.local]
kind = "{kind}"
[targets.main]
kind = "embedded"
"""
HOTPOT = [
    {
        "_id": f"h{i}",
        "question": f"Which colour is thing {i}?",
        "answer": "red",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [[f"Thing {i}", 0]],
        "context": [[f"Thing {i}", [f"Thing {i} is red."]], ["Shared", ["Every thing has a colour."]]],
    }
    for i in range(4)
]


def task(folder: Path, rows: Any, *, sets: tuple[str, ...] = (), **named: str) -> Task:
    (folder / "official.json").write_text(json.dumps(rows), "utf-8")
    text = RECIPE.format(**{"dataset": "hotpotqa", "kind": "bm25", "file": "official.json"} | named)
    recipe = recipes.parse(text, sets, base=folder)
    return prepare(
        recipe, store=CallStore(None), targets={"main": ScriptedTarget(lambda request: {"answer": "red"})}
    )


def test_passages_that_come_with_questions_are_the_corpus_and_are_pooled(tmp_path: Path) -> None:
    hotpot_task = task(tmp_path, HOTPOT)
    source: Any = hotpot_task.runtime.source("local")
    assert sorted(p.title for p in source.passages) == ["Shared", "Thing 0", "Thing 1", "Thing 2", "Thing 3"]
    held = {p.id for p in source.passages}
    for question in (*hotpot_task.dev, *hotpot_task.test):
        assert held.issuperset((*question.gold_ids, *question.context_ids))
        assert len(question.gold_ids) == 1
    assert (len(hotpot_task.dev), len(hotpot_task.test)) == (2, 1)


def test_a_source_of_kind_given_finds_what_comes_with_the_question(tmp_path: Path) -> None:
    hotpot_task = task(tmp_path, HOTPOT, kind="given")
    program = hotpot_task.method.build(hotpot_task.runtime, {})
    question = hotpot_task.dev[0]
    prediction = program(question=question.question, **question.context())
    assert {passage.id for passage in prediction.passages} == set(question.context_ids)


def test_ids_that_another_corpus_does_not_hold_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "w1", "title": "Wiki", "text": "Other text."}\n', "utf-8")
    hotpot_task = task(tmp_path, HOTPOT, sets=('data.corpus="corpus.jsonl"',))
    assert all(not question.gold_ids and not question.context_ids for question in hotpot_task.dev)


def test_a_data_set_without_passages_asks_for_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Questions of 'nq' come without passages; name a corpus"):
        task(tmp_path, [{"question": f"who {i}", "answer": ["x"]} for i in range(4)], dataset="nq")
