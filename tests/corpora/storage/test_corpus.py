"""A corpus on disk is the corpus in memory: the same passages, fingerprints, cuts and hits."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.storage import corpus as corpora
from ragc.corpora.storage.corpus import Corpus, StoredCorpus, half_of, read, sample
from ragc.errors import DataError
from ragc.records import Passage
from tests.examples import examples

TEXTS = st.text(max_size=40)
WORD = st.sampled_from(["ape", "Bee", "cat.", "猫", "the", "\n\n", "élan"])
WORDS = st.lists(WORD, max_size=40).map(" ".join)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6).filter(
    lambda id: id.strip() and not id.endswith("#0")
)
PASSAGES = st.lists(st.tuples(IDS, TEXTS, WORDS), min_size=1, max_size=12, unique_by=lambda p: p[0]).map(
    lambda rows: tuple(Passage(*row) for row in rows)
)


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "STORED_FROM", 1)


def stored(folder: Path, passages: tuple[Passage, ...]) -> StoredCorpus:
    path = folder / "corpus.jsonl"
    lines = (json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in passages)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    os.utime(path, ns=(0, hash(passages) % 2**40))
    stored_corpus = read(path, home=folder / "home")
    assert isinstance(stored_corpus, StoredCorpus)
    return stored_corpus


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(passages=PASSAGES, size=st.integers(1, 12), overlap=st.sampled_from([0.0, 0.3]))
def test_both_give_the_same_passages_cuts_and_samples(
    passages: tuple[Passage, ...], size: int, overlap: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = stored(tmp_path_factory.mktemp("c"), passages)
    memory = Corpus(passages)
    assert tuple(disk.passages) == memory.passages
    assert disk.fingerprint == memory.fingerprint
    assert [disk.find(p.id) for p in passages] == list(passages)
    assert disk.find("nobody's") is None
    cut, wanted = disk.chunk(size, overlap), memory.chunk(size, overlap)
    assert tuple(cut) == tuple(wanted)
    assert [cut[at] for at in range(-len(cut), len(cut))] == 2 * list(wanted)
    assert cut[1:] == wanted[1:]
    assert sample(cut, 3, "seed", frozenset()) == sample(wanted, 3, "seed", frozenset())
    with pytest.raises(IndexError):
        cut[len(cut)]


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    passages=PASSAGES, query=WORDS, k=st.integers(1, 9), size=st.none() | st.integers(1, 12),
    setting=st.sampled_from([(0.9, 0.4), (0.0, 1.0)]),
)  # fmt: skip
def test_searches_find_the_same_with_the_same_scores(
    passages: tuple[Passage, ...],
    query: str,
    k: int,
    size: int | None,
    setting: tuple[float, float],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("c")
    k1, b = setting
    disk = Bm25Source(stored(folder, passages), k1=k1, b=b, chunk_size=size, home=folder / "home")
    memory = Bm25Source(Corpus(passages), k1=k1, b=b, chunk_size=size)
    assert disk.fingerprint == memory.fingerprint
    assert asyncio.run(disk.search(query, k)) == asyncio.run(memory.search(query, k))


def test_a_second_opening_reads_the_index_and_not_the_file(tmp_path: Path) -> None:
    passages = tuple(Passage(f"p{n}", "", f"word{n} shared") for n in range(50))
    Bm25Source(stored(tmp_path, passages), home=tmp_path / "home").build()
    path = tmp_path / "corpus.jsonl"
    seen = path.stat()
    path.write_bytes(b"x" * seen.st_size)  # of the same size and time: only a reader would notice
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    again = Bm25Source(read(path, home=tmp_path / "home"), home=tmp_path / "home")
    opened = again.build()
    assert opened
    assert not opened.built
    assert [hit.passage.id for hit in asyncio.run(again.search("word7", 3))] == ["p7"]


def test_read_reads_a_changed_file_again(tmp_path: Path) -> None:
    before = stored(tmp_path, (Passage("a", "", "old"),))
    after = stored(tmp_path, (Passage("a", "", "new words"),))
    assert (before.passages[0].text, after.passages[0].text) == ("old", "new words")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('{"id": "a", "title": "", "text": "x"}\n' * 2, "'a' belongs to several"),
        ('{"id": "a", "title": "", "text": "x"}\n{"id": 2, "title": "", "text"', "line 2"),
        ('{"id": "a", "title": "", "text": {}}', "`text` is an object"),
        ("\n\n", "no passage"),
    ],
)  # fmt: skip
def test_read_names_what_is_wrong_and_leaves_nothing(tmp_path: Path, lines: str, words: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(lines, "utf-8")
    with pytest.raises(DataError, match=words):
        read(path, home=tmp_path / "home")
    assert [entry.name for entry in (tmp_path / "home" / "corpus").iterdir() if entry.is_dir()] == []


def test_two_halves_share_no_passage_and_are_all() -> None:
    whole = Corpus(Passage(f"p{n}", "", f"text {n}") for n in range(40))
    first, second = (half_of(whole, half) for half in ("first", "second"))
    assert sorted(p.id for p in (*first.passages, *second.passages)) == sorted(p.id for p in whole.passages)
    assert min(len(first.passages), len(second.passages)) > 10
    assert first.fingerprint != second.fingerprint
