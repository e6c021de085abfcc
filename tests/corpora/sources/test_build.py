"""Sources from a recipe's tables: every kind, its options, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragc import corpora
from ragc import recipe as recipes
from ragc.errors import UsageError
from ragc.store.call_store import CallStore
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, write_files
from tests.support.rows import write_rows

ROWS = [{"id": f"p{i}", "title": f"Thing {i}", "text": f"Thing {i} is number{i}."} for i in range(5)]
RECIPE = recipe_toml(data={"dev": 1}, sources=[]) + "[sources.local]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    question = {"id": "q", "question": "Which thing?", "answers": ["x"]}
    write_files(tmp_path, questions=[question], corpus=ROWS)
    recording = {"query": "which thing", "passages": [{**ROWS[2], "score": 1.0}]}
    write_rows(tmp_path / "recorded.jsonl", [recording])
    return tmp_path


def source(folder: Path, table: str) -> Any:
    recipe = recipes.parse(RECIPE + table, base=folder)
    task = prepare(recipe, store=CallStore(None), targets={"main": ScriptedTarget([])})
    return task.runtime.source("local")


def test_every_kind_that_is_listed_can_be_made_or_names_the_library_it_lacks(folder: Path) -> None:
    tables = {
        "recorded": 'corpus = "recorded.jsonl"',
        "api": 'options.base_url = "http://127.0.0.1:9"',
    }
    for kind in corpora.SOURCES:
        try:
            local_source = source(folder, f'kind = "{kind}"\n{tables.get(kind, "")}')
        except UsageError as error:
            if "pip install" not in str(error):
                pytest.fail(f"{kind}: {error}")
        else:
            assert local_source.kind == kind


def test_titles_put_the_passage_first_that_the_query_names(folder: Path) -> None:
    table = 'kind = "bm25"\noptions.titles = {}'
    plain, titled = (source(folder, table.format(on)) for on in ("false", "true"))
    assert plain.fingerprint != titled.fingerprint
    hits = asyncio.run(titled.search("what is Thing 3 number1", 3))
    assert hits[0].passage.id == "p3"


def test_a_recording_answers_the_query_it_knows(folder: Path) -> None:
    local_source = source(folder, 'kind = "recorded"\ncorpus = "recorded.jsonl"')
    assert [hit.passage.id for hit in asyncio.run(local_source.search("which thing", 3))] == ["p2"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('kind = "bm25"\noptions.chunk_sise = 1', r"has no option 'chunk_sise'. Did you mean 'chunk_size'"),
        ('kind = "bm25"\noptions.titles = 3', "'titles' of a source is true or false, found 3"),
        ('kind = "recorded"', "needs its recording; add corpus"),
        ('kind = "api"', "needs the address of the mock API: options.base_url"),
        ('kind = "api"\noptions.base_url = "http://x"\noptions.sleep = 1', "has no option 'sleep'"),
        ('kind = "web"\noptions.allow_loopback = true', "no option 'allow_loopback'|pip install"),
    ],
)
def test_wrong_options_are_refused_by_name(folder: Path, table: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        source(folder, table)
