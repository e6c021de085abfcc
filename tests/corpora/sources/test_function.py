"""A function of the user's is a source, in Python and as `module:name` in a recipe."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.function import FunctionSource
from ragc.errors import SourceError, UsageError
from ragc.recipe import parse
from ragc.records import Hit, Passage
from ragc.store.calls import CallStore
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, write_files

MODULE = """
from ragc import Hit, Passage

def find(query, k):
    return [{"id": 7, "text": f"about {query}", "title": "A title"}, "a text", Passage("p", "", "whole")][:k]

async def later(query, k):
    return find(query, k)

def stop(query, k):
    raise SystemExit(3)

class Shelf:
    def __init__(self, prefix="x"):
        self.prefix = prefix

    def __call__(self, query, k):
        return [f"{self.prefix} {query}"]

class Notes:
    kind = "notes"

    def __init__(self, **options):
        self.fingerprint = str(options)

    async def search(self, query, k):
        return (Hit(Passage("n", "", "a note"), 1.0),)[:k]

    def sample(self, n, *, seed, exclude=frozenset()):
        return (Passage("s", "", "sampled"),)

    def rechunk(self, chunk_size, overlap):
        return self

class Unbuildable:
    def __init__(self):
        raise ValueError("no shelf")

NUMBER = 3
"""


def search(source: Source, query: str = "cats", k: int = 9) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def texts(source: Source, query: str = "cats", k: int = 9) -> list[str]:
    return [hit.passage.text for hit in search(source, query, k)]


def from_recipe(folder: Path, kind: str, options: str = "") -> Source:
    text = recipe_toml(data={"dev": 1}, sources=[]) + f'[sources.local]\nkind = "{kind}"\n{options}'
    write_files(folder, questions=[{"id": "q", "question": "Which?", "answers": ["x"]}], corpus=[])
    (folder / "shelves.py").write_text(MODULE, "utf-8")
    task = prepare(parse(text, base=folder), store=CallStore(None), targets={"main": ScriptedTarget([])})
    return task.runtime.source("local")


@pytest.mark.parametrize("name", ["find", "later"])
def test_recipe_names_a_function_plain_or_async(name: str, tmp_path: Path) -> None:
    source = from_recipe(tmp_path, f"shelves:{name}")
    first, second, third = search(source)
    assert (first.passage, first.score) == (Passage("7", "A title", "about cats"), 1.0)
    assert (second.passage.text, second.score, third.passage) == ("a text", 0.5, Passage("p", "", "whole"))
    assert second.passage.id == search(source)[1].passage.id
    assert texts(source, k=1) == ["about cats"]
    assert source.fingerprint == from_recipe(tmp_path, f"shelves:{name}").fingerprint


def test_recipe_names_a_class_that_gets_the_options(tmp_path: Path) -> None:
    shelf = from_recipe(tmp_path, "shelves:Shelf", 'options.prefix = "y"')
    assert texts(shelf) == ["y cats"]
    assert shelf.fingerprint != from_recipe(tmp_path, "shelves:Shelf").fingerprint
    notes = from_recipe(tmp_path, "shelves:Notes", "options.rerank = 3")
    assert texts(notes) == ["a note"]
    assert notes.sample(1, seed="s") == (Passage("s", "", "sampled"),)
    assert notes.rechunk(9, 0.0) is notes


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("shelves:fnd", "", r"'shelves:fnd' names 'fnd', which is not in 'shelves'. Did you mean 'find'"),
        ("shelf:find", "", "names the module 'shelf', which is neither beside the recipe"),
        ("shelves:find", "options.k = 3", "is a function, which takes no options; name a class"),
        ("shelves:Shelf", "options.colour = 3", "cannot be built: TypeError: .*colour"),
        ("shelves:Unbuildable", "", "cannot be built: ValueError: no shelf; repair it"),
        ("shelves:NUMBER", "", "builds a int without fingerprint, search, sample, rechunk"),
    ],
)
def test_recipe_with_a_source_that_cannot_be_built_says_why(
    kind: str, options: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        from_recipe(tmp_path, kind, options)


def test_function_that_ends_the_process_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="The source 'shelves:stop' ended the process"):
        search(from_recipe(tmp_path, "shelves:stop"))


def test_function_results_may_be_objects_and_lists_inside_an_object() -> None:
    found = SimpleNamespace(passages=[SimpleNamespace(long_text="a"), {"text": "b", "extra": 1}])
    assert texts(FunctionSource(lambda query: found)) == ["a", "b"]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("one text", "it returned str; put what it finds into a list"),
        (None, "it returned NoneType"),
        ({"text": "x"}, "it returned dict"),
        ([3], "an item of the type int has no text"),
        ([{"body": "x"}], r"an item of the type dict has no text \(Field required\); give each a `text`"),
    ],
)
def test_function_that_returns_something_else_is_one_sentence(found: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        search(FunctionSource(lambda query: found))


def test_function_that_raises_is_a_failed_search() -> None:
    with pytest.raises(SourceError, match="raised ZeroDivisionError: division by zero"):
        search(FunctionSource(lambda query, k: [1 / 0]))
