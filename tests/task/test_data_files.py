"""A recipe reads questions and a corpus as `ragc new --questions` does: files of rows, documents, folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.errors import RecipeError
from ragc.recipe import Recipe, load, parse
from ragc.task.data import RecipeData
from ragc.task.passages import CorpusIds

RECIPE = """
program = "vanilla"
[data]
{data}
[sources.local]
kind = "bm25"
corpus = {corpus}
[targets.main]
kind = "embedded"
"""
QUESTIONS = "question,answer\n" + "".join(f"Who is {n}?,Ada {n}\n" for n in range(40))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    (tmp_path / "q.csv").write_text(QUESTIONS)
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.md").write_text("# Boats\n\nA boat floats on water and carries people.\n")
    (tmp_path / "docs" / "sub" / "b.txt").write_text("A train runs on rails and carries goods.\n")
    (tmp_path / "docs" / "prices.csv").write_text("item;price\nboat;7\n")
    (tmp_path / "docs" / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "one.jsonl").write_text(
        '{"id": "d1", "contents": "First."}\n{"id": "d2", "contents": "Second."}\n'
    )
    (tmp_path / "two.csv").write_text("title,text\nT,Third.\n")
    (tmp_path / "three.json").write_text(
        json.dumps([{"page_content": "Fourth.", "metadata": {"title": "U"}}])
    )
    return tmp_path


def recipe_of(here: Path, data: str = 'questions = "q.csv"\ndev = 3', corpus: object = "one.jsonl") -> Recipe:
    return parse(RECIPE.format(data=data, corpus=json.dumps(corpus)), base=here)


def passages(here: Path, corpus: object) -> dict[str, str]:
    recipe = recipe_of(here, corpus=corpus)
    again = parse(recipe.to_toml(), base=here)
    assert again.sources == recipe.sources
    return {p.id: p.text for p in RecipeData(recipe).corpus(recipe.sources["local"]).passages}


def test_a_csv_of_questions_and_answers_needs_no_map(here: Path) -> None:
    dev = RecipeData(recipe_of(here)).splits(CorpusIds(()))["dev"]
    assert len(dev) == 3
    assert all(question.id.startswith("row-") and question.answers[0].startswith("Ada") for question in dev)


@pytest.mark.parametrize(
    ("corpus", "texts"),
    [
        ("one.jsonl", ["First.", "Second."]),
        ("two.csv", ["Third."]),
        ("three.json", ["Fourth."]),
        (["one.jsonl", "two.csv"], ["First.", "Second.", "Third."]),
        ("*.json*", ["First.", "Second.", "Fourth."]),
    ],
)
def test_a_corpus_is_one_file_of_rows_or_several(here: Path, corpus: object, texts: list[str]) -> None:
    assert list(passages(here, corpus).values()) == texts


def test_a_corpus_is_a_folder_or_a_pattern_of_documents_also_next_to_rows(here: Path) -> None:
    folder = passages(here, "docs")
    assert any("floats on water" in text for text in folder.values())
    assert any("runs on rails" in text for text in folder.values())
    assert any("boat" in text and "7" in text for text in folder.values())  # a table among documents is one
    pattern = passages(here, "docs/**/*.txt")
    assert [text.strip() for text in pattern.values()] == ["A train runs on rails and carries goods."]
    assert {"First.", "Second."} < set(passages(here, ["docs/a.md", "one.jsonl"]).values())
    alone = passages(here, "docs/a.md")
    assert "floats on water" in "".join(alone.values())
    assert sorted(path.name for path in (here / "docs").iterdir()) == [
        "a.md",
        "picture.png",
        "prices.csv",
        "sub",
    ]


def test_a_file_that_is_not_there_is_named_with_the_nearest(here: Path) -> None:
    with pytest.raises(RecipeError, match=r"Did you mean 'one\.jsonl'"):
        recipe_of(here, corpus="ones.jsonl")
    with pytest.raises(RecipeError, match="there is no such file"):
        recipe_of(here, corpus=["one.jsonl", "*.nothing"])


def test_train_may_be_none_beside_files_for_dev_and_test(here: Path) -> None:
    (here / "dev.csv").write_text(QUESTIONS.replace("Who", "Where"))
    splits = RecipeData(recipe_of(here, 'train = 0\ndev = "dev.csv"\ntest = "q.csv"')).splits(CorpusIds(()))
    assert {name: len(split) for name, split in splits.items()} == {"train": 0, "dev": 40, "test": 40}
    with pytest.raises(RecipeError, match=r"data.train is drawn from a question file; add data.questions"):
        recipe_of(here, 'train = 1\ndev = "dev.csv"\ntest = "q.csv"')


def test_the_recipe_of_a_new_project_reads_its_questions_without_a_map(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ragc

    monkeypatch.chdir(here)
    project = ragc.new("docs", questions="q.csv")
    assert (project.questions, project.studied) == (40, True)
    recipe = load(project.folder / "recipe.toml")
    assert recipe.data.fields.explicit == {}
    assert len(RecipeData(recipe).pool(CorpusIds(()))) == 40
