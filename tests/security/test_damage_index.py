"""An index that was damaged is built anew, never searched: 200 bit flips in the files of all kinds."""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ragc.core import event_loop
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.sources.dense.faiss_index import IndexSettings
from ragc.corpora.sources.dense.source import DenseSource
from ragc.corpora.storage import corpus as corpora
from ragc.corpora.storage import index_cache
from ragc.corpora.storage.corpus import Corpus
from ragc.errors import SourceError
from ragc.records import Hit
from tests.examples import thorough
from tests.support.embedders import HashedWords
from tests.support.progress import Notes
from tests.support.rows import write_rows

SEED = 20_261_122
FLIPS = 50  # a kind
QUERIES = ("apple river", "stone 7", "north wind cloud", "nothing here")
WORDS = ["apple", "river", "stone", "north", "wind", "cloud", "seven", "lamp"]

Open = Callable[[Corpus, Path], Source]


def bm25(corpus: Corpus, home: Path) -> Source:
    return Bm25Source(corpus, home=home)


def bm25_cut(corpus: Corpus, home: Path) -> Source:
    return Bm25Source(corpus, chunk_size=20, overlap=0.5, home=home)


def flat(corpus: Corpus, home: Path) -> Source:
    return DenseSource(corpus, HashedWords(), home=home)


def graph(corpus: Corpus, home: Path) -> Source:
    settings = IndexSettings("hnsw", m=8, ef_construction=40, ef_search=64)
    return DenseSource(corpus, HashedWords(), settings=settings, home=home)


def lucene(corpus: Corpus, home: Path) -> Source:
    from ragc.corpora.sources.lucene import LuceneSource

    return LuceneSource(corpus, home=home)


def lacks(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


KINDS = [
    pytest.param(bm25, ("corpus", "bm25"), id="bm25"),
    pytest.param(bm25_cut, ("corpus", "chunks", "bm25"), id="bm25 of chunks"),
    pytest.param(flat, ("corpus", "dense"), id="dense flat", marks=lacks("faiss")),
    pytest.param(graph, ("corpus", "dense"), id="dense hnsw", marks=lacks("faiss")),
    pytest.param(lucene, ("corpus", "lucene"), id="lucene", marks=lacks("pyserini")),
]


@pytest.fixture
def passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus file whose passages are kept on disk."""
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


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file() and path.suffix != ".lock")


def flip(file: Path, pick: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[pick.randrange(len(content))] ^= 1 << pick.randrange(8)
    file.write_bytes(content)


def outcome(make: Open, file: Path, home: Path, right: list[tuple[Hit, ...]]) -> str:
    try:
        hits = answers(make, file, home)
    except SourceError as error:
        return "refused" if "\n" not in str(error) else "more than a sentence"
    assert hits == right, "a wrong answer in silence"
    return "right"


@thorough
@pytest.mark.parametrize("small", [True, False], ids=["small", "large"])
@pytest.mark.parametrize(("make", "kinds"), KINDS)
def test_a_flipped_bit_in_an_index_is_never_searched(
    make: Open,
    kinds: tuple[str, ...],
    small: bool,
    passages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not small:  # as an index that is too large to be read whenever it is opened
        monkeypatch.setattr(index_cache, "SMALL", 0)
    print(f"seed {SEED}")
    pick, seen, harmed = random.Random(SEED), Counter[str](), Counter[str]()
    home = tmp_path / "indexes"
    right = answers(make, passages, home)
    assert any(right)
    assert {path.name for path in home.iterdir()} == set(kinds)
    for _ in range(FLIPS if small else FLIPS // 5):
        chosen = pick.choice(files_of(home))
        flip(chosen, pick)
        harmed[chosen.name if chosen.suffix != index_cache.VERIFIED else "the note"] += 1
        seen[outcome(make, passages, home, right)] += 1
    print(dict(seen), dict(harmed))
    assert len(harmed) >= 4


def test_an_index_under_the_name_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    def build(text: str) -> index_cache.Build:
        def write(folder: Path, step: index_cache.Step) -> None:
            (folder / "f").write_text(text)

        return write

    one = index_cache.open_or_build("toy", "c1", {"k": 1}, build("one"), home=tmp_path)
    other = index_cache.open_or_build("toy", "c1", {"k": 2}, build("other"), home=tmp_path)
    shutil.rmtree(one.path)
    shutil.copytree(other.path, one.path)
    progress = Notes()
    again = index_cache.open_or_build("toy", "c1", {"k": 1}, build("one"), home=tmp_path, progress=progress)
    assert (again.built, (again.path / "f").read_text()) == (True, "one")
    assert [note for note in progress.notes if "damaged" in note and "built anew" in note]
