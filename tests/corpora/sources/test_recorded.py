"""Recorded searches are found again, by their query or the nearest one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.recorded import RecordedSource, Recorder, read_recording
from ragc.errors import DataError, SourceError, UsageError
from ragc.records import Hit, Passage
from tests.support.rows import write_rows

CATS = {
    "query": "where do cats sleep",
    "passages": [{"id": "b", "text": "On mats."}, {"id": "a", "text": "In."}],
}
DOGS = {"query": "dogs", "passages": [{"id": 3, "title": "Dog", "text": "A dog.", "start": 4, "score": 1.5}]}


def write(folder: Path, *rows: Any) -> Path:
    return write_rows(folder / "recorded.jsonl", rows)


def ask(source: Source, query: str, k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def test_a_recorded_query_gets_its_passages(tmp_path: Path) -> None:
    source = RecordedSource(write(tmp_path, CATS, DOGS, {"query": "none", "passages": []}))
    assert ask(source, "where do cats sleep") == (
        Hit(Passage("b", "", "On mats."), 1.0),
        Hit(Passage("a", "", "In."), 0.5),
    )
    assert ask(source, "where do cats sleep", 1)[0].passage.id == "b"
    assert ask(source, "where do cats sleep", 0) == ask(source, "none") == ()
    assert ask(source, "dogs") == (Hit(Passage("3", "Dog", "A dog.", 4), 1.5),)


def test_another_query_gets_the_nearest_nothing_or_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, CATS, DOGS)
    nearest, nothing, error = (RecordedSource(path, unknown=way) for way in ("nearest", "nothing", "error"))
    assert ask(nearest, "Do cats dream?") == ask(nearest, "where do cats sleep")
    assert ask(nearest, "unheard") == ask(nothing, "Do cats dream?") == ()
    with pytest.raises(SourceError, match="was not recorded"):
        ask(error, "Do cats dream?")
    assert len({nearest.fingerprint, nothing.fingerprint, error.fingerprint}) == 3
    with pytest.raises(UsageError, match="'nearest', 'nothing' or 'error'"):
        ragc.source("recorded", corpus=path, unknown="guess")


def test_scores_decide_with_ties_by_id_and_of_several_lines_the_longest_counts(tmp_path: Path) -> None:
    scored = [
        {"id": name, "text": name, "score": score}
        for name, score in (("c", 1), ("b", 1), ("a", 0.5), ("d", 2))
    ]
    lines = [{"query": "q", "passages": scored[:n]} for n in (2, 4, 3)]
    hits = ask(RecordedSource(write(tmp_path, *lines)), "q")
    assert [hit.passage.id for hit in hits] == ["d", "b", "c", "a"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"passages": []}, "`query`: Field required"),
        ({"query": "q", "passage": []}, "`passages`: Field required"),
        ({"query": "q", "passages": {}}, "`passages`: Input should be a valid array"),
        ({"query": "q", "passages": ["x"]}, "`passages.0`: Input should be an object"),
        ({"query": "q", "passages": [{"id": "a"}]}, "`passages.0.text`: Field required"),
        ({"query": "q", "passages": [{"id": "a", "text": "t", "start": -1}]}, "`passages.0.start`: "),
        ({"query": "q", "passages": [{"id": "a", "text": "t", "score": "high"}]}, "`passages.0.score`: "),
        ({"query": "q", "passages": [{"id": "a", "text": "t"}] * 2}, "an id twice"),
        (
            {"query": "q", "passages": [{"id": "a", "text": "t", "score": 1}, {"id": "b", "text": "t"}]},
            "for some only",
        ),
    ],
)
def test_what_is_wrong_is_said_by_line(tmp_path: Path, row: Any, problem: str) -> None:
    path = write(tmp_path, CATS, row)
    with pytest.raises(DataError, match=f"line 2: .*{problem}"):
        RecordedSource(path)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [(None, "No such file"), ((), "holds no query"), (({"query": "q", "passages": []},), "holds no passage")],
    ids=str,
)
def test_a_recording_with_nothing_in_it_is_refused(rows: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "absent.jsonl" if rows is None else write(tmp_path, *rows)
    with pytest.raises(DataError, match=problem):
        RecordedSource(path)


def test_the_recorder_goes_on_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    corpus = Bm25Source(
        [Passage("p1", "Cat", "cat sat\n\u2028mat"), Passage("p2", "", "cat"), Passage("p3", "", "dog")]
    )
    assert Recorder(corpus, path).kind == "bm25"
    for _ in range(2):
        recorder = Recorder(corpus, path)
        for query, k in (("cat", 1), ("cat", 2), ("bird", 3)):
            ask(recorder, query, k)
    assert path.read_text("utf-8").count("\n") == 3  # nothing that is there already
    assert [len(hits) for hits in read_recording(path).values()] == [2, 0]


def test_searches_of_a_source_built_by_hand_are_recorded_and_replayed(tmp_path: Path) -> None:
    path, texts = tmp_path / "searches.jsonl", ["An iterator ends.", "A loop reads an iterator."]
    hits = ask(ragc.source("bm25", corpus=texts, record=path), "iterator", 2)
    assert len(hits) == 2
    assert ask(ragc.source("recorded", corpus=path), "iterator", 2) == hits
    with pytest.raises(UsageError, match="'given' finds depends on the question"):
        ragc.source("given", corpus=texts, record=path)


def test_every_cut_is_recorded_in_its_own_file(tmp_path: Path) -> None:
    recorder = Recorder(Bm25Source([Passage("p", "", "cat dog. " * 20)]), tmp_path / "r.jsonl")
    cut = recorder.rechunk(8, 0.5)
    assert cut is recorder.rechunk(8, 0.5)
    hits = ask(cut, "cat")
    assert ask(RecordedSource(tmp_path / "r.8-0.5.jsonl"), "cat") == hits
    assert not (tmp_path / "r.jsonl").exists()
