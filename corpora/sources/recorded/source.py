"""`recorded`: search results read from a file, and the recorder that writes such a file.

One JSON object a line:

    {"query": "Who was Ada?", "passages": [{"id": "p1", "title": "Ada", "text": "...", "score": 2.5}]}

`score` (higher is better, for all passages of a line or for none) and `start` are optional; without scores
the order is that of the line. Other fields are ignored. Of several lines with the same query the one with the
most passages is used, the first among equals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.corpora.chunking import chunk
from ragc.corpora.files.records import data_error
from ragc.corpora.files.row import FileRow, kind
from ragc.corpora.files.rows import rows
from ragc.corpora.sources.base import Source, parts_of
from ragc.corpora.sources.bm25.source import Bm25Source, bm25_scores
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.corpora.storage.corpus import sample
from ragc.errors import DataError, SourceError, UsageError, nearest
from ragc.records import Hit, Passage

Recording = Mapping[str, tuple[Hit, ...]]
"""The hits of every recorded query, best first."""

Unknown = Literal["nearest", "nothing", "error"]
UNKNOWN: tuple[Unknown, ...] = ("nearest", "nothing", "error")


class RecordedSource:
    """The results in the file at `path`, or in a recording.

    A recorded query gets its hits. `unknown` decides on other queries: the hits of the `nearest` recorded
    query by BM25 over query words (none if no word is shared), `nothing`, or an `error`. With `chunk_size`,
    longer passages are cut, and the hits of a query are its chunks ordered by BM25 with them as the corpus.
    Raises DataError for an unusable file, UsageError for a setting out of range.
    """

    kind = "recorded"

    def __init__(
        self,
        recording: str | Path | Recording,
        *,
        unknown: Unknown = "nearest",
        chunk_size: int | None = None,
        overlap: float = 0.0,
        chunk_by: str = "text",
    ) -> None:
        if unknown not in UNKNOWN:
            raise UsageError(f"unknown = {unknown!r} is not known; choose one of {', '.join(UNKNOWN)}.")
        if isinstance(recording, str | Path):
            recording = read_recording(recording)
        self._recording = recording
        self.unknown, self.chunk_size, self.overlap, self.chunk_by = unknown, chunk_size, overlap, chunk_by
        cut = chunk.settings(chunk_size, overlap, chunk_by)
        content = [[query, [_plain(hit) for hit in hits]] for query, hits in recording.items()]
        self.fingerprint = digest([self.kind, content, unknown, ANALYZER, cut])
        # Fixed width, so that ties are broken by the position in the file.
        self._queries = list(recording)
        self._index = Bm25Source(Passage(f"{n:09}", "", q) for n, q in enumerate(recording))

    def __deepcopy__(self, memo: object) -> RecordedSource:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, queries=len(self._queries), unknown=self.unknown)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` recorded hits, best first.

        Raises SourceError for an unrecorded query if `unknown` is "error".
        """
        recorded_query: str | None = query
        if query not in self._recording:
            recorded_query = await self._nearest_query(query)
        if recorded_query is None:
            return ()
        hits = self._recording[recorded_query]
        if self.chunk_size is not None:
            hits = chunk_and_rank(query, hits, self.chunk_size, self.overlap, self.chunk_by)
        return hits[: max(k, 0)]

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` passages drawn from those of all queries, each id once; none in `exclude`."""
        return sample(self.parts_of(tuple(self._whole())), n, seed, exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the recorded passages with these ids, or their chunks, in order."""
        size, recorded = self.chunk_size, self._whole()
        whole = [recorded[name] for name in dict.fromkeys(ids) if name in recorded]
        if size is None:
            return tuple(whole)
        cut = (chunk.chunk_passage(passage, size, self.overlap, self.chunk_by) for passage in whole)
        return tuple(part for parts in cut for part in parts)

    def _whole(self) -> dict[str, Passage]:
        return {hit.passage.id: hit.passage for hits in self._recording.values() for hit in hits}

    def rechunk(self, chunk_size: int, overlap: float) -> RecordedSource:
        """Returns the same recording with its passages in chunks of at most `chunk_size` tokens."""
        more: dict[str, Any] = {"unknown": self.unknown, "chunk_by": self.chunk_by}
        return RecordedSource(self._recording, chunk_size=chunk_size, overlap=overlap, **more)

    async def _nearest_query(self, query: str) -> str | None:
        """Returns the recorded query used for an unrecorded one; None if there is none."""
        if self.unknown == "error":
            raise SourceError(
                f"The query {query[:200]!r} was not recorded; record it, or set unknown to 'nearest' or "
                "'nothing'."
            )
        hits = await self._index.search(query, 1) if self.unknown == "nearest" else ()
        return self._queries[int(hits[0].passage.id)] if hits else None


class Recorder:
    """Searches `source` and appends each result to the file at `path`, in the format of `RecordedSource`.

    The file is created or continued. A line is written in one piece after the search. Failed searches are not
    written, nor those for which the file already has at least as many passages. Raises DataError if the
    existing file is unusable.
    """

    def __init__(self, source: Source, path: str | Path) -> None:
        self.source, self.path = source, Path(path)
        self.kind, self.fingerprint = source.kind, source.fingerprint
        there = self.path.exists() and self.path.stat().st_size > 0
        recording = read_recording(self.path) if there else {}
        self._hit_counts = {query: len(hits) for query, hits in recording.items()}
        self._cuts: dict[tuple[int, float], Recorder] = {}
        self._lock = Lock()

    def __deepcopy__(self, memo: object) -> Recorder:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.source, path=str(self.path))

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the source's hits. Raises SourceError as the source does, or for a failed write of the
        file.
        """
        hits = await self.source.search(query, k)
        with self._lock:
            if len(hits) > self._hit_counts.get(query, -1):
                line = {"query": query, "passages": [_plain(hit) for hit in hits]}
                try:
                    _append(self.path, json.dumps(line, ensure_ascii=False))
                except OSError as error:
                    raise SourceError(
                        f"The recording {self.path} cannot be written ({error.strerror}); free space or "
                        "check its folder."
                    ) from error
                self._hit_counts[query] = len(hits)
        return hits

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns the source's sample; it is not recorded."""
        return self.source.sample(n, seed=seed, exclude=exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the parts from the wrapped source; they are not recorded."""
        return parts_of(self.source, ids)

    def rechunk(self, chunk_size: int, overlap: float) -> Recorder:
        """Returns the rechunked source, recorded in another file: `web.jsonl` becomes `web.256-0.5.jsonl`."""
        with self._lock:
            if (chunk_size, overlap) not in self._cuts:
                path = self.path.with_suffix(f".{chunk_size}-{float(overlap):g}{self.path.suffix}")
                self._cuts[chunk_size, overlap] = Recorder(self.source.rechunk(chunk_size, overlap), path)
            return self._cuts[chunk_size, overlap]


def read_recording(path: str | Path) -> Recording:
    """Returns the hits of every query in the file at `path`, in file order.

    Raises DataError with every problem of the file, or if it has no query.
    """
    recording: dict[str, tuple[Hit, ...]] = {}
    problems: list[str] = []
    for row in rows(Path(path)):
        if not row.problems:
            query = row.text("query", blank=True)
            hits = _hits(row)
            if query not in recording or len(hits) > len(recording[query]):
                recording[query] = hits
        problems += [f"{row.location}: {problem}" if row.location else problem for problem in row.problems]
    if problems:
        raise data_error(str(path), problems)
    if not recording:
        raise DataError(str(path), ["the file holds no query; one JSON object a line is needed"])
    return recording


def chunk_and_rank(
    query: str, hits: Sequence[Hit], size: int, overlap: float, by: str = "text"
) -> tuple[Hit, ...]:
    """Returns the passages of `hits` in chunks of at most `size` tokens, ranked by BM25 among themselves,
    ties by id.

    Chunks that share no word with the query come last, with a score of 0.
    """
    parts = [part for hit in hits for part in chunk.chunk_passage(hit.passage, size, overlap, by)]
    return rank_by_bm25(query, parts)


def rank_by_bm25(query: str, passages: Iterable[Passage]) -> tuple[Hit, ...]:
    """Returns all of `passages`, ranked by BM25 for `query` with them as the corpus, ties by id."""
    parts = list(passages)
    scores = bm25_scores(query_terms(query), [passage_terms(part) for part in parts])
    hits = (Hit(part, score) for part, score in zip(parts, scores, strict=True))
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.passage.id)))


def in_order(passages: Iterable[Passage]) -> tuple[Hit, ...]:
    """Returns hits for passages that are already best first; the score of the n-th is 1/n."""
    return tuple(Hit(passage, 1 / n) for n, passage in enumerate(passages, 1))


def _hits(row: FileRow) -> tuple[Hit, ...]:
    passages: list[Passage] = []
    scores: list[float] = []
    if "passages" not in row.values:
        row.problems.append(f"`passages` is missing.{nearest('passages', row.values)}")
    for at, item in enumerate(row.items("passages")):
        if not isinstance(item, dict):
            row.problems.append(f"`passages[{at}]` is {kind(item)}, an object is needed")
            continue
        inner = FileRow("", item)
        name, title = inner.text("id", number=True), inner.text("title", needed=False, blank=True)
        text, start, score = inner.text("text", blank=True), item.get("start", 0), item.get("score")
        if type(start) is not int or start < 0:
            inner.problems.append("`start` is no whole number, 0 or more")
        if score is not None and type(score) not in (int, float):
            inner.problems.append(f"`score` is {kind(score)}, a number is needed")
        row.problems += [f"`passages[{at}]`: {problem}" for problem in inner.problems]
        if not inner.problems:
            passages.append(Passage(name, title, text, start))
            scores += [] if score is None else [float(score)]
    if len({passage.id for passage in passages}) < len(passages):
        row.problems.append("`passages` names an id twice")
    if scores and len(scores) < len(passages):
        row.problems.append("`passages` has scores for some only; give all of them one, or none")
    if row.problems or not scores:
        return in_order(passages)
    hits = (Hit(passage, score) for passage, score in zip(passages, scores, strict=True))
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.passage.id)))


def _plain(hit: Hit) -> dict[str, str | int | float]:
    at = hit.passage
    return {"id": at.id, "title": at.title, "text": at.text, "start": at.start, "score": hit.score}


def _append(path: Path, line: str) -> None:
    """Appends `line` to the file in one piece."""
    with path.open("ab", buffering=0) as file:
        file.write(line.encode("utf-8", "replace") + b"\n")
