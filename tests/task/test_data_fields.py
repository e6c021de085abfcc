"""Recipes over files in the user's own shape: maps, filters, and data sets in the format of the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.errors import DataError, RecipeError
from ragc.recipe import Recipe, load
from ragc.task.data import RecipeData
from ragc.task.passages import CorpusIds
from tests.support.rows import write_rows

MAPS = """
program = "vanilla"
[targets.main]
kind = "hosted"
model = "openai/x"
[sources.local]
kind = "bm25"
corpus = "pages.jsonl"
[data]
{data}
[data.corpus_fields]
id = "doc"
text = "body"
"""
OWN = """
questions = "own.jsonl"
dev = 2
[data.fields]
id = "#"
question = "query"
answers = "gold.*.text"
[data.where]
meta.level = ["hard", "medium"]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    rows = [
        {"query": f"Who {n}?", "gold": [{"text": f"a{n}"}], "meta": {"level": level}}
        for n, level in enumerate(["hard", "easy", "medium", "hard"], 1)
    ]
    rows.append({"query": "None?", "gold": [], "meta": {"level": "hard"}})
    write(tmp_path / "own.jsonl", *rows)
    write(tmp_path / "pages.jsonl", {"doc": 1, "body": "text"})
    return tmp_path


def write(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    write_rows(path, rows)


def read(here: Path, data: str) -> Recipe:
    (here / "recipe.toml").write_text(MAPS.format(data=data), "utf-8")
    return load(here / "recipe.toml")


def test_a_map_and_a_filter_give_questions_and_passages(here: Path) -> None:
    recipe = read(here, OWN)
    data = RecipeData(recipe)
    (passage,) = data.corpus(recipe.sources["local"]).passages
    assert (passage.id, passage.text) == ("1", "text")
    dev = data.splits(CorpusIds(()))["dev"]
    assert {q.id for q in dev} <= {"row-1", "row-3", "row-4"}
    assert data.notes == {"skipped": 1}


def test_files_of_splits_may_number_their_rows(here: Path) -> None:
    write(here / "other.jsonl", {"query": "Else?", "gold": [{"text": "x"}], "meta": {"level": "hard"}})
    recipe = read(
        here, OWN.replace('questions = "own.jsonl"\ndev = 2', 'dev = "own.jsonl"\ntest = "other.jsonl"')
    )
    splits = RecipeData(recipe).splits(CorpusIds(()))
    assert [q.id for q in splits["dev"]] == ["dev-1", "dev-3", "dev-4"]
    assert [q.id for q in splits["test"]] == ["test-1"]


def test_a_filter_works_on_named_data_sets(here: Path) -> None:
    recipe = read(here, 'dataset = "pydocs"\ndev = 2\n[data.where]\nid = "nothing"')
    with pytest.raises(DataError, match="the filter leaves none of"):
        RecipeData(recipe).splits(CorpusIds(()))


def test_a_folder_in_the_format_of_the_hub_is_a_data_set(here: Path) -> None:
    pytest.importorskip("datasets")
    rows = [{"id": n, "query": f"Who {n}?", "answers": ["a"]} for n in range(3)]
    write(here / "set" / "validation.jsonl", *rows)
    recipe = read(here, 'dataset = "hf:./set"\n[data.fields]\nquestion = "query"')
    splits = RecipeData(recipe).splits(CorpusIds(()))
    assert sorted(q.id for q in splits["dev"]) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('questions = "own.jsonl"\n[data.fields]\nqestion = "q"', "Did you mean 'question'?"),
        ('questions = "own.jsonl"\n[data.fields]\nquestion = 3', "must be a text, found 3"),
        (
            'questions = "own.jsonl"\n[data.where]\nlevel = []',
            "data.where.level: The filter on 'level' needs",
        ),
        ('dataset = "hf:org/name?splt=dev"', "Did you mean 'split'?"),
        ('dataset = "hotpotqa"\nquestions = "own.jsonl"\n[data.fields]\nid = "x"', "knows its own fields"),
    ],
)
def test_what_cannot_be_is_one_problem(here: Path, data: str, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(here, data)
    (problem,) = caught.value.problems
    assert expected in problem
