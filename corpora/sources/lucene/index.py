"""An index in Lucene's format: writing it from passages, and searching it.

Documents are sorted by passage id, so that Lucene's tie-breaking by document number is the order of ids. All
code that uses Java runs inside `jvm.call`.
"""

from __future__ import annotations

import json
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from itertools import islice
from pathlib import Path
from typing import Any

from ragc.corpora.sources.lucene.jvm import call, call_async, drop, java
from ragc.corpora.sources.terms import analyze, query_terms
from ragc.records import Hit, Passage

FORMAT = 1
"""Format version: increased whenever the same passages would give another index."""

ANALYZERS = ("ragc", "english", "standard")
"""`ragc`: the terms and exact lengths of the source `bm25`. `english`: pyserini's default, Porter stems
and Lucene's stop words. `standard`: Lucene's, words in lower case. The last two round lengths as Lucene
does by default."""

_LUCENE = "org.apache.lucene."
_MAX_TERMS = 1_000_000
_BATCH = 200  # passages written at once; searches wait meanwhile


def write(folder: Path, passages: Iterable[Passage], analyzer: str, step: Callable[[int], None]) -> None:
    """Writes the index of `passages`, read in batches, as one segment in `folder`; `step` counts them.

    If this raises, `folder` may hold an incomplete index.
    """
    held: dict[str, Any] = {}
    try:
        call(lambda: _begin(held, folder, analyzer))
        rest = iter(passages)
        while batch := tuple(islice(rest, _BATCH)):
            _add(held, batch, analyzer)
            step(len(batch))
        call(lambda: _finish(held["writer"]))
    finally:
        call(lambda: _leave(held))
    (folder / "write.lock").unlink(missing_ok=True)


class LuceneIndex:
    """An index opened for searches with fixed settings. Thread-safe.

    score = BM25(title and text) + title_boost * BM25(title), each field with its own statistics.
    """

    def __init__(self, folder: Path, analyzer: str, k1: float, b: float, title_boost: float) -> None:
        self.analyzer, self.title_boost = analyzer, title_boost
        self._java: dict[str, Any] = {}
        call(lambda: self._open(folder, k1, b))
        weakref.finalize(self, drop, self._java).atexit = False

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits with a score above 0, best first, ties by passage id."""
        if k < 1 or not query.strip():
            return ()
        text = _for_lucene(query, self.analyzer, query=True)
        hits = await call_async(lambda: self._search(text, k))
        return tuple(Hit(Passage(*json.loads(stored)), score) for stored, score in hits)

    def _open(self, folder: Path, k1: float, b: float) -> None:
        from jnius import cast

        directory = _directory(folder)
        reader = java(_LUCENE + "index.DirectoryReader").open(directory)
        kind = java(_LUCENE + "search.IndexSearcher")
        kind.setMaxClauseCount(_MAX_TERMS)
        searcher = kind(cast(_LUCENE + "index.IndexReader", reader))
        searcher.setSimilarity(_similarity(self.analyzer, k1, b))
        self._java.update(
            searcher=searcher, analyzer=_analyzer(self.analyzer), reader=reader, directory=directory
        )

    def _search(self, query: str, k: int) -> Sequence[tuple[str, float]]:
        terms = java("io.anserini.analysis.AnalyzerUtils").analyze(self._java["analyzer"], query)
        counts = Counter(terms.get(at) for at in range(terms.size()))
        if not counts:
            return ()
        builder = java(_LUCENE + "search.BooleanQuery$Builder")()
        should = java(_LUCENE + "search.BooleanClause$Occur").SHOULD
        for term, times in counts.items():
            builder.add(_term_query("contents", term, float(times)), should)
            if self.title_boost:
                builder.add(_term_query("title", term, times * self.title_boost), should)
        searcher = self._java["searcher"]
        best = searcher.search(builder.build(), k).scoreDocs
        stored = searcher.storedFields()
        return [(stored.document(hit.doc).get("passage"), hit.score) for hit in best if hit.score > 0]


def _directory(folder: Path) -> Any:
    return java(_LUCENE + "store.FSDirectory").open(java("java.nio.file.Paths").get(str(folder)))


def _begin(held: dict[str, Any], folder: Path, analyzer: str) -> None:
    config = java(_LUCENE + "index.IndexWriterConfig")(_analyzer(analyzer))
    config.setSimilarity(_similarity(analyzer, 0.9, 0.4))  # affects only the encoding of lengths
    by_id = java(_LUCENE + "search.SortField")("id", java(_LUCENE + "search.SortField$Type").STRING)
    config.setIndexSort(java(_LUCENE + "search.Sort")(by_id))
    held["directory"] = _directory(folder)
    held["writer"] = java(_LUCENE + "index.IndexWriter")(held["directory"], config)


def _add(held: dict[str, Any], batch: Sequence[Passage], analyzer: str) -> None:
    ready = [
        (
            _for_lucene(f"{passage.title} {passage.text}", analyzer),
            _for_lucene(passage.title, analyzer),
            passage.id.encode("utf-8", "surrogatepass"),
            json.dumps(astuple(passage)),
        )
        for passage in batch
    ]

    def add() -> None:
        for fields in ready:
            held["writer"].addDocument(_document(*fields))

    call(add)


def _finish(writer: Any) -> None:
    writer.forceMerge(1)
    writer.commit()


def _leave(held: dict[str, Any]) -> None:
    """Closes the writer, discarding uncommitted changes, and its directory."""
    if "writer" in held:
        held["writer"].rollback()
    if "directory" in held:
        held["directory"].close()
    held.clear()


def _document(whole: str, title: str, key: bytes, passage: str) -> Any:
    """Returns a document: title and text together and the title alone are indexed; the passage is stored as
    ASCII JSON.
    """
    text, keep = java(_LUCENE + "document.TextField"), java(_LUCENE + "document.Field$Store").NO
    document = java(_LUCENE + "document.Document")()
    document.add(text("contents", whole, keep))
    document.add(text("title", title, keep))
    document.add(java(_LUCENE + "document.SortedDocValuesField")("id", java(_LUCENE + "util.BytesRef")(key)))
    document.add(java(_LUCENE + "document.StoredField")("passage", passage))
    return document


def _for_lucene(text: str, analyzer: str, *, query: bool = False) -> str:
    """Returns the input of Lucene's analyzer: for `ragc` the terms separated by spaces."""
    if analyzer == "ragc":
        return " ".join(query_terms(text) if query else analyze(text))
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _analyzer(name: str) -> Any:
    if name == "english":
        return java("io.anserini.analysis.DefaultEnglishAnalyzer").newStemmingInstance("porter")
    known = {"ragc": "core.WhitespaceAnalyzer", "standard": "standard.StandardAnalyzer"}
    return java(f"{_LUCENE}analysis.{known[name]}")()


def _similarity(analyzer: str, k1: float, b: float) -> Any:
    if analyzer == "ragc":
        return java("io.anserini.search.similarity.AccurateBM25Similarity")(k1, b)
    return java(_LUCENE + "search.similarities.BM25Similarity")(k1, b)


def _term_query(field: str, term: str, boost: float) -> Any:
    query = java(_LUCENE + "search.TermQuery")(java(_LUCENE + "index.Term")(field, term))
    return query if boost == 1 else java(_LUCENE + "search.BoostQuery")(query, boost)
