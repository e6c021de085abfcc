"""The knobs `sections` and `tables`: what titles of chunks say, with an index a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.chunking import chunk
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.storage import corpus as corpora
from ragc.corpora.storage.corpus import StoredCorpus
from ragc.recipe.load import parse
from ragc.records import Passage
from ragc.task.base import prepare

ROWS = "".join(f"| part number{n} | {n} euro |\n" for n in range(30))
MANUAL = Passage(
    "manual.pdf, page 1",
    "Manual",
    f"# Setup\n\n{'Turn the key. ' * 30}\n\n## Prices\n\n| part | price |\n| --- | --- |\n{ROWS}",
)


def titles(by: str, size: int = 60) -> set[str]:
    return {part.title for part in chunk.chunk_passage(MANUAL, size, by=by)}


def test_titles_name_sections_columns_or_both() -> None:
    assert titles("markdown") == {"Manual"}
    assert titles("sections") == {"Manual: Setup", "Manual: Setup > Prices"}
    assert titles("columns") == {"Manual", "Manual (columns: part, price)"}
    assert titles("both") == {"Manual: Setup", "Manual: Setup > Prices (columns: part, price)"}


def test_only_a_chunk_without_the_header_names_the_columns() -> None:
    for part in chunk.chunk_passage(MANUAL, 60, by="columns"):
        assert ("(columns:" in part.title) is ("number" in part.text and "| part | price |" not in part.text)


RECIPE = """
program = "vanilla"
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
options.chunk_by = "sections"
[targets.main]
kind = "embedded"
[knobs]
chunk_size = 50
"""


def source_of(folder: Path, **knobs: Any) -> Any:
    row = {"id": MANUAL.id, "title": MANUAL.title, "text": MANUAL.text}
    (folder / "corpus.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    task = prepare(parse(RECIPE, base=folder, files=False), questions=False, answering=False)
    return task.method.build(task.runtime, task.recipe.fixed(task.method) | knobs).local


def test_knobs_of_vanilla_decide_over_the_option_of_the_source(tmp_path: Path) -> None:
    def chunk_titles(**knobs: Any) -> set[str]:
        return {part.title for part in source_of(tmp_path, **knobs).passages}

    assert chunk_titles() == titles("sections", 50)
    assert chunk_titles(sections="untitled") == titles("markdown", 50)
    assert chunk_titles(tables="titled") == titles("both", 50)
    assert chunk_titles(sections="untitled", tables="titled") == titles("columns", 50)


def test_a_corpus_on_disk_keeps_an_index_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "STORED_FROM", 1)
    row = {"id": MANUAL.id, "title": MANUAL.title, "text": MANUAL.text}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    whole = Bm25Source(
        corpora.read(tmp_path / "corpus.jsonl", home=tmp_path / "home"), home=tmp_path / "home"
    )
    assert isinstance(whole.corpus, StoredCorpus)
    folders = set()
    for columns in (True, False):
        source = whole.with_titles(True, columns).rechunk(60, 0.0)
        assert {part.title for part in source.passages} == titles("both" if columns else "sections")
        built, again = source.build(), source.build()
        assert built is not None
        assert again is not None
        assert (built.built, again.built) == (True, False)
        folders.add(built.path)
    assert len(folders) == 2
