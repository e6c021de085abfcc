"""An index whose files were cut short, lost or exchanged is built again, never searched."""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ragc.core import event_loop
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.dense import DenseSource
from ragc.corpora.storage import corpus as corpora
from ragc.corpora.storage.corpus import Corpus
from ragc.corpora.storage.index_cache import Step, open_or_build
from ragc.records import Hit
from tests.support.embedders import HashedWords
from tests.support.progress import Notes
from tests.support.rows import write_rows

QUERIES = ("apple river", "stone 7", "north wind cloud", "nothing here")
WORDS = ["apple", "river", "stone", "north", "wind", "cloud", "seven", "lamp"]

Open = Callable[[Corpus, Path], Source]


def bm25(corpus: Corpus, home: Path) -> Source:
    return Bm25Source(corpus, chunk_size=20, overlap=0.5, home=home)


def dense(corpus: Corpus, home: Path) -> Source:
    return DenseSource(corpus, HashedWords(), index="hnsw", m=8, home=home)


def lucene(corpus: Corpus, home: Path) -> Source:
    from ragc.corpora.sources.lucene import LuceneSource

    return LuceneSource(corpus, home=home)


def lacks(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


@pytest.fixture
def passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus file whose passages are stored on disk."""
    monkeypatch.setattr(corpora, "STORED_FROM", 1)
    pick = random.Random(1)
    lines = [
        {"id": f"p{n}", "title": pick.choice(WORDS), "text": " ".join(pick.choices(WORDS, k=12 + n % 30))}
        for n in range(50)
    ]
    file = tmp_path / "corpus.jsonl"
    write_rows(file, lines)
    return file


def answers(make: Open, file: Path, home: Path) -> list[tuple[Hit, ...]]:
    source = make(corpora.read(file, home=home), home)

    async def work() -> list[tuple[Hit, ...]]:
        return [await source.search(query, 5) for query in QUERIES]

    return event_loop.run(work())


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        pytest.param(bm25, {"corpus", "chunks", "bm25"}, id="bm25"),
        pytest.param(dense, {"corpus", "dense"}, id="dense", marks=lacks("faiss")),
        pytest.param(lucene, {"corpus", "lucene"}, id="lucene", marks=lacks("pyserini")),
    ],
)
def test_an_index_with_a_file_cut_short_or_missing_is_built_again(
    make: Open, kinds: set[str], passages: Path, tmp_path: Path
) -> None:
    home = tmp_path / "indexes"
    right = answers(make, passages, home)
    assert any(right)
    assert {path.name for path in home.iterdir()} == kinds
    names = {(p.parent.parent.name, p.name) for p in home.rglob("*") if p.is_file() and p.suffix != ".lock"}
    for kind, name in sorted(names):
        for harm in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1] or b"[1]")):
            (file,) = (path for path in (home / kind).rglob(name) if ".aside-" not in str(path))
            harm(file)
            assert answers(make, passages, home) == right


def test_an_index_under_the_name_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    def build(text: str) -> Callable[[Path, Step], None]:
        def write(folder: Path, step: Step) -> None:
            (folder / "f").write_text(text)

        return write

    first = open_or_build("toy", "c1", {"k": 1}, build("one"), home=tmp_path)
    other = open_or_build("toy", "c1", {"k": 2}, build("two"), home=tmp_path)
    shutil.rmtree(first.path)
    shutil.copytree(other.path, first.path)
    progress = Notes()
    again = open_or_build("toy", "c1", {"k": 1}, build("one"), home=tmp_path, progress=progress)
    assert (again.built, (again.path / "f").read_text()) == (True, "one")
    assert [note for note in progress.notes if "damaged" in note and "built again" in note]
