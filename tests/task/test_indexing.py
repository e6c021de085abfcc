"""`ragc index` builds what the program searches: afterwards no program builds anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.core import event_loop
from ragc.core.files import cache_home
from ragc.corpora.storage import corpus as corpora
from ragc.programs import METHODS, Method
from ragc.store.calls import CallStore
from ragc.task.base import prepare
from ragc.task.indexing import index
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.support.recipes import recipe_toml, write_files

SOURCES = ("local", "web", "dense", "kg")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corpora, "STORED_FROM", 1)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    text = "Thing {n} was made in the town of number{n}. " * 30
    rows = ({"id": f"p{n}", "title": f"Thing {n}", "text": text.format(n=n)} for n in range(9))
    question = {"id": "q", "question": "Where was thing 3 made?", "answers": ["x"]}
    return write_files(tmp_path, questions=[question], corpus=rows)


def text_of(program: str, sources: list[str]) -> str:
    return recipe_toml(program, data={"dev": 1}, sources=sources, targets=["main", "proxy", "judge"])


def recipe(folder: Path, method: Method) -> recipes.Recipe:
    used = [name for name in SOURCES if name in (*method.sources, *method.optional_sources)]
    return recipes.parse(text_of(method.id, used), base=folder)


def on_disk() -> set[Path]:
    home = cache_home() / "indexes"
    return {entry for entry in home.glob("*/*") if entry.is_dir()}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_what_is_built_is_all_that_a_program_searches(folder: Path, method: Method) -> None:
    method_recipe = recipe(folder, method)
    rows = index(method_recipe)
    assert all(row["built"] for row in rows)
    built = on_disk()
    targets: Any = {role: ScriptedTarget(SchemaReplies()) for role in ("main", "proxy", "judge")}
    task = prepare(method_recipe, store=CallStore(None), targets=targets)
    program = task.method.build(task.runtime, {})
    event_loop.run(program.acall(question="Where was thing 3 made?"))
    assert on_disk() == built
    assert [row["built"] for row in index(method_recipe)] == [False] * len(rows)


def test_rows_say_what_was_built(folder: Path) -> None:
    path = write_files(folder, recipe=text_of("vanilla", ["local"])) / "recipe.toml"
    (row,) = ragc.index(path, sets=["knobs.chunk_size=50"])
    assert (row["id"], row["kind"]) == ("local", "bm25")
    assert row["passages"] > 9
    assert row["bytes"] == sum(f.stat().st_size for f in Path(row["path"]).iterdir())
