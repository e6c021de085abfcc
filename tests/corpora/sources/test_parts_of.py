"""A source that holds passages gives the parts of those that are asked for; others give nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.corpora.rerank.base import RerankedSource
from ragc.corpora.rerank.bm25 import Bm25Reranker
from ragc.corpora.sources.base import Source, parts_of
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.sources.function import FunctionSource
from ragc.corpora.sources.given.source import GivenSource
from ragc.corpora.sources.hybrid.source import HybridSource
from ragc.corpora.sources.recorded.source import RecordedSource, Recorder
from ragc.corpora.sources.title_rules import TitleSource
from ragc.records import Hit, Passage

PAGES = [Passage(f"p{n}", f"Page {n}", f"Ada wrote {n}. " * (1 + 30 * (n % 2))) for n in range(4)]
RECORDING = {"q1": (Hit(PAGES[2], 1.0), Hit(PAGES[1], 0.5)), "q2": (Hit(PAGES[1], 1.0), Hit(PAGES[0], 0.5))}


def build(kind: str, folder: Path) -> Source:
    plain = Bm25Source(PAGES)
    sources: dict[str, Source] = {
        "bm25": plain,
        "given": GivenSource(PAGES),
        "hybrid": HybridSource(plain, plain),
        "reranked": RerankedSource(plain, Bm25Reranker()),
        "title": TitleSource(plain),
        "recorded": RecordedSource(RECORDING),
        "recorder": Recorder(plain, folder / "recorded.jsonl"),
    }
    return sources[kind]


@pytest.mark.parametrize("kind", ["bm25", "given", "hybrid", "reranked", "title", "recorded", "recorder"])
def test_parts_come_in_the_order_asked_for_cut_as_the_source_cuts(kind: str, tmp_path: Path) -> None:
    source = build(kind, tmp_path)
    assert parts_of(source, ["p1", "lost", "p0", "p1"]) == (PAGES[1], PAGES[0])
    cut = parts_of(source.rechunk(40, 0.0), ["p1", "p0"])
    assert [part.parent for part in cut] == ["p1"] * (len(cut) - 1) + ["p0"]
    assert [part for part in Bm25Source(PAGES).rechunk(40, 0.0).passages if part.parent == "p1"] == list(
        cut[:-1]
    )
    assert len(cut) > 3
    assert parts_of(source, []) == ()


def test_a_source_that_holds_nothing_gives_nothing() -> None:
    assert parts_of(FunctionSource(lambda query, k: ["text"]), ["p0"]) == ()
