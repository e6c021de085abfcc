"""`recorded`: search results read from a file, and the recorder that writes such a file.

One JSON object a line:

    {"query": "Who was Ada?", "passages": [{"id": "p1", "title": "Ada", "text": "...", "score": 2.5}]}

`score` (higher is better, for all passages of a line or for none) and `start` are optional; without scores
the order is that of the line. Other fields are ignored. Of several lines with the same query the one with the
most passages is used, the first among equals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ragc.core.digest import digest
from ragc.core.files import open_regular
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.files.records import data_error
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind, SourceWrapper, best_first
from ragc.corpora.sources.bm25 import Bm25Source, bm25_scores
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.options import ChunkOptions, RerankOptions
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.corpora.storage.corpus import Corpus, cut
from ragc.errors import DataError, SourceError, UsageError
from ragc.records import Hit, Passage

Recording = Mapping[str, tuple[Hit, ...]]
"""The hits of every recorded query, best first."""


class PlaybackOptions(ChunkOptions):
    """How a recording is played back."""

    unknown: Annotated[str, Choice(("nearest", "nothing", "error")), HARMLESS] = Field(
        default="nearest",
        description="What a query that was not recorded gets: the hits of the nearest, nothing, or an error.",
    )


class RecordedOptions(PlaybackOptions, RerankOptions):
    """Options of a source of kind `recorded`."""


class RecordedPassage(BaseModel):
    """A passage of a recorded search."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    title: str = ""
    text: str
    start: int = Field(default=0, ge=0, strict=True)
    score: float | None = Field(default=None, strict=True)


class RecordedSearch(BaseModel):
    """A line of a recording."""

    query: str
    passages: list[RecordedPassage]

    @field_validator("passages")
    @classmethod
    def _check(cls, passages: list[RecordedPassage]) -> list[RecordedPassage]:
        if len({passage.id for passage in passages}) < len(passages):
            raise ValueError("names an id twice")
        if len({passage.score is None for passage in passages}) > 1:
            raise ValueError("has scores for some only; give all of them one, or none")
        return passages


class RecordedSource(ChunkedSource):
    """The results in the file at `path`, or in a recording.

    A recorded query gets its hits. `unknown` decides on other queries: the hits of the `nearest` recorded
    query by BM25 over query words (none if no word is shared), `nothing`, or an `error`. With `chunk_size`,
    longer passages are cut, and the hits of a query are its chunks ordered by BM25 with them as the corpus.
    Raises DataError for an unusable file or one without any passage, UsageError for an option out of range.
    """

    kind, Options = "recorded", PlaybackOptions

    def __init__(self, recording: str | Path | Recording, **options: Any) -> None:
        self._recording = read_recording(recording) if isinstance(recording, str | Path) else recording
        passages = {hit.passage.id: hit.passage for hits in self._recording.values() for hit in hits}
        super().__init__(Corpus(passages.values()), **options)
        self._with = partial(RecordedSource, self._recording)
        lines = [_line(query, hits) for query, hits in self._recording.items()]
        self.fingerprint = digest([self.kind, lines, self.options.unknown, ANALYZER, self.cutting])
        # Fixed width, so that ties are broken by the position in the file.
        self._queries = Bm25Source(Passage(f"{n:09}", "", query) for n, query in enumerate(self._recording))

    @classmethod
    def of(cls, inputs: SourceInputs, options: dict[str, Any]) -> Source:
        """Builds the source over the recording of `inputs`. Raises UsageError without one."""
        if not inputs.recording:
            raise UsageError(
                "A source of kind 'recorded' needs its recording; add corpus = \"results.jsonl\"."
            )
        return cls(inputs.resolve(inputs.recording), **options)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` recorded hits, best first.

        Raises SourceError for an unrecorded query if `unknown` is "error".
        """
        if query not in self._recording and self.options.unknown == "error":
            raise SourceError(
                f"The query {query[:200]!r} was not recorded; record it, or set unknown to 'nearest' or "
                "'nothing'."
            )
        recorded = query
        if query not in self._recording and self.options.unknown == "nearest":
            recorded = next((hit.passage.text for hit in await self._queries.search(query, 1)), query)
        hits = self._recording.get(recorded, ())
        if self.options.chunk_size is not None:
            hits = rank_by_bm25(query, cut((hit.passage for hit in hits), *self._cut))
        return hits[: max(k, 0)]


class Recorder(SourceWrapper):
    """Searches `inner` and appends each result to the file at `path`, in the format of `RecordedSource`.

    The file is created or continued. A line is written in one piece after the search. Failed searches are not
    written, nor those for which the file already has at least as many passages. With other chunks another
    file is written: `web.jsonl` becomes `web.256-0.5.jsonl`. Raises DataError if the existing file is
    unusable.
    """

    def __init__(self, inner: Source, path: str | Path) -> None:
        super().__init__(inner)
        self.path = Path(path)
        recording = read_recording(self.path) if self.path.exists() and self.path.stat().st_size else {}
        self._hit_counts = {query: len(hits) for query, hits in recording.items()}
        self._cut = cache(
            lambda chunk_size, overlap: Recorder(
                inner.rechunk(chunk_size, overlap),
                self.path.with_suffix(f".{chunk_size}-{float(overlap):g}{self.path.suffix}"),
            )
        )
        self._lock = Lock()

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the source's hits. Raises SourceError as the source does, or for a failed write of the
        file.
        """
        hits = await self.inner.search(query, k)
        with self._lock:
            if len(hits) > self._hit_counts.get(query, -1):
                try:
                    with self.path.open("ab", buffering=0) as file:
                        file.write(f"{_line(query, hits)}\n".encode("utf-8", "replace"))
                except OSError as error:
                    raise SourceError(
                        f"The recording {self.path} cannot be written ({error.strerror}); free space or "
                        "check its folder."
                    ) from error
                self._hit_counts[query] = len(hits)
        return hits

    def rechunk(self, chunk_size: int, overlap: float) -> Recorder:
        """Returns the rechunked source, recorded in another file; the same one for the same chunks."""
        return self._cut(chunk_size, overlap)

    def with_titles(self, sections: bool | None, columns: bool | None) -> Recorder:
        """Returns the recorder itself: titles are recorded as they are."""
        return self


def read_recording(path: str | Path) -> Recording:
    """Returns the hits of every query in the file at `path`, in file order.

    Raises DataError with every problem of the file, or if it has no query.
    """
    recording: dict[str, tuple[Hit, ...]] = {}
    problems: list[str] = []
    try:
        with open_regular(Path(path)) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise DataError(str(path), [f"cannot be read ({error.strerror or error}); check the path"]) from error
    for number, line in ((number, line) for number, line in enumerate(lines, 1) if line.strip()):
        try:
            search = RecordedSearch.model_validate_json(line)
        except ValidationError as error:
            located = [(".".join(map(str, part["loc"])), part["msg"]) for part in error.errors()]
            problems += [f"line {number}: {f'`{where}`: ' if where else ''}{why}" for where, why in located]
            continue
        hits = best_first(
            Hit(Passage(p.id, p.title, p.text, p.start), 1 / rank if p.score is None else p.score)
            for rank, p in enumerate(search.passages, 1)
        )
        recording[search.query] = max(recording.get(search.query, ()), hits, key=len)
    if problems or not recording:
        raise data_error(str(path), problems or ["the file holds no query; one JSON object a line is needed"])
    return recording


def _line(query: str, hits: Iterable[Hit]) -> str:
    """Returns the line of a search."""
    passages = [{**asdict(hit.passage), "score": hit.score} for hit in hits]
    return json.dumps({"query": query, "passages": passages}, ensure_ascii=False)


def rank_by_bm25(query: str, passages: Iterable[Passage]) -> tuple[Hit, ...]:
    """Returns all of `passages`, ranked by BM25 for `query` with them as the corpus, ties by id."""
    parts = list(passages)
    scores = bm25_scores(query_terms(query), [passage_terms(part) for part in parts])
    return best_first(map(Hit, parts, scores))


def in_order(passages: Iterable[Passage]) -> tuple[Hit, ...]:
    """Returns hits for passages that are already best first; the score of the n-th is 1/n."""
    return tuple(Hit(passage, 1 / n) for n, passage in enumerate(passages, 1))


KIND = SourceKind("recorded", RecordedOptions, RecordedSource.of, corpus="file")
