"""One system in a process of its own, for `retrieval.py`, which talks to it in lines of JSON.

    python experiments/benchmarks/retrieval/retrieval_systems.py SYSTEM build CORPUS FOLDER
    python experiments/benchmarks/retrieval/retrieval_systems.py SYSTEM serve CORPUS FOLDER < commands

`build` makes the index and says how long that took. `serve` opens it and obeys

    open QUERY      open and search once
    run N QUERIES   all queries of the JSON list, N in flight

Systems: `bm25` (passages and index on disk), `bm25 memory`, `lucene`, `bm25s` and `bm25s mmap` (as bm25s
is without any setting; they give positions, not passages), `rank_bm25`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

K = 10
"""Hits a search."""


class System(Protocol):
    """What is measured. All times are taken around these calls."""

    def load(self) -> None:
        """Import the libraries that searching needs."""

    def read(self) -> None:
        """Take the passages from the corpus file."""

    def index(self) -> None:
        """Make them searchable, on disk where the system can."""

    def open(self) -> None:
        """Make what was indexed before searchable in this process."""

    def search(self, queries: list[str], at_once: int) -> int:
        """The hits of all queries, `at_once` of them in flight."""
        ...


class Ours:
    """A source of ragc: `bm25` on disk or in memory, or `lucene`."""

    def __init__(self, corpus: Path, folder: Path, kind: str) -> None:
        self.corpus_file, self.home, self.kind = corpus, folder, kind
        self.corpus: Any = None
        self.source: Any = None

    def load(self) -> None:
        """Import the libraries that searching needs."""
        if self.kind == "lucene":
            import ragc.corpora.sources.lucene.source
        else:
            import bm25s  # noqa: F401

            import ragc.corpora.sources.bm25  # noqa: F401

    def read(self) -> None:
        """Take the passages from the corpus file."""
        from ragc.corpora.files.records import read_corpus
        from ragc.corpora.storage.corpus import MemoryCorpus, read

        if self.kind == "bm25 memory":
            self.corpus = MemoryCorpus(read_corpus(self.corpus_file))
        else:
            self.corpus = read(self.corpus_file, home=self.home)

    def index(self) -> None:
        """Build what lies on disk; in memory, the first search does."""
        self._make()
        if self.source.build() is None:
            self.search(["none"], 1)

    def open(self) -> None:
        """Make what was indexed before searchable in this process."""
        self.read()
        self._make()
        self.source._ready()

    def search(self, queries: list[str], at_once: int) -> int:
        """The hits of all queries, `at_once` of them in flight."""
        return asyncio.run(self._search(queries, at_once))

    async def _search(self, queries: list[str], at_once: int) -> int:
        rest, hits = iter(queries), 0

        async def work() -> None:
            nonlocal hits
            for query in rest:
                hits += len(await self.source.search(query, K))

        await asyncio.gather(*(work() for _ in range(at_once)))
        return hits

    def _make(self) -> None:
        if self.kind == "lucene":
            from ragc.corpora.sources.lucene.source import LuceneSource

            self.source = LuceneSource(self.corpus, home=self.home)
        else:
            from ragc.corpora.sources.bm25.source import Bm25Source

            self.source = Bm25Source(self.corpus, home=self.home)


class Plain:
    """bm25s as its documentation uses it: `tokenize`, `index`, `retrieve`, all settings as they come."""

    def __init__(self, corpus: Path, folder: Path, mapped: bool) -> None:
        self.corpus, self.folder, self.mapped = corpus, folder, mapped
        self.texts: list[str] = []
        self.model: Any = None

    def load(self) -> None:
        """Import the libraries that searching needs."""
        import bm25s  # noqa: F401

    def read(self) -> None:
        """Take the passages from the corpus file."""
        self.texts = texts(self.corpus)

    def index(self) -> None:
        """Compute the index and write it."""
        import bm25s

        self.model = bm25s.BM25()
        self.model.index(bm25s.tokenize(self.texts, show_progress=False), show_progress=False)
        self.model.save(self.folder, show_progress=False)

    def open(self) -> None:
        """Load the index, or map it."""
        import bm25s

        self.model = bm25s.BM25.load(self.folder, mmap=self.mapped, show_progress=False)

    def search(self, queries: list[str], at_once: int) -> int:
        """The hits of all queries: one call for each, or one for all with threads of its own."""
        if at_once > 1:
            return self._retrieve(queries, n_threads=at_once)
        return sum(self._retrieve([query]) for query in queries)

    def _retrieve(self, queries: list[str], **more: int) -> int:
        import bm25s

        terms = bm25s.tokenize(queries, return_ids=False, show_progress=False)
        results = self.model.retrieve(terms, k=K, show_progress=False, **more)
        return int((results.scores > 0).sum())


class RankBm25:
    """BM25Okapi of rank_bm25, which knows no disk and takes words."""

    def __init__(self, corpus: Path) -> None:
        self.corpus, self.texts = corpus, list[str]()
        self.model: Any = None

    def load(self) -> None:
        """Import the libraries that searching needs."""
        import rank_bm25  # noqa: F401

    def read(self) -> None:
        """Take the passages from the corpus file."""
        self.texts = texts(self.corpus)

    def index(self) -> None:
        """Compute the index."""
        from rank_bm25 import BM25Okapi

        self.model = BM25Okapi([_split(text) for text in self.texts])

    def open(self) -> None:
        """Read and compute all anew."""
        self.read()
        self.index()

    def search(self, queries: list[str], at_once: int) -> int:
        """The hits of all queries, by threads when several are in flight."""
        if at_once == 1:
            return sum(map(self._count_hits, queries))
        with ThreadPoolExecutor(at_once) as pool:
            return sum(pool.map(self._count_hits, queries))

    def _count_hits(self, query: str) -> int:
        return len(self.model.get_top_n(_split(query), self.texts, K))


SYSTEMS: dict[str, Callable[[Path, Path], System]] = {
    "bm25": lambda corpus, folder: Ours(corpus, folder, "bm25"),
    "bm25 memory": lambda corpus, folder: Ours(corpus, folder, "bm25 memory"),
    "lucene": lambda corpus, folder: Ours(corpus, folder, "lucene"),
    "bm25s": lambda corpus, folder: Plain(corpus, folder, False),
    "bm25s mmap": lambda corpus, folder: Plain(corpus, folder, True),
    "rank_bm25": lambda corpus, folder: RankBm25(corpus),
}


def texts(corpus: Path) -> list[str]:
    """Title and text of every passage of the file."""
    with corpus.open(encoding="utf-8") as rows:
        return [f"{row['title']} {row['text']}" for row in map(json.loads, rows)]


def _split(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def memory() -> dict[str, int]:
    """Bytes of this process in memory: all, and those that are not parts of files."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"rss": int(status["VmRSS"].split()[0]) * 1024, "own": int(status["RssAnon"].split()[0]) * 1024}


def drop_page_cache(folder: Path) -> None:
    """Ask the system to drop the files of `folder` from its cache, so that opening them is cold."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def time_call(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def build(system: System) -> dict[str, float]:
    """Seconds of reading the corpus and of indexing it, libraries loaded; the processor's for both."""
    system.load()
    before = time.process_time()
    times = {"read": time_call(system.read), "index": time_call(system.index)}
    return {**times, "cpu": time.process_time() - before}


def run_command(system: System, folder: Path, line: str) -> dict[str, float]:
    """What the command in `line` measured."""
    command, _, rest = line.partition(" ")
    if command == "open":
        drop_page_cache(folder)
        before = memory()
        times = {"load": time_call(system.load), "open": time_call(system.open)}
        at_open = memory()
        times["first"] = time_call(lambda: system.search([rest], 1))
        return {**times, "start": before["rss"], **at_open}
    n, _, queries = rest.partition(" ")
    batch = json.loads(queries)
    hits = 0

    def work() -> None:
        nonlocal hits
        hits = system.search(batch, int(n))

    return {"seconds": time_call(work), "found": hits, **memory()}


def main() -> None:
    name, stage, corpus, folder = sys.argv[1:]
    system = SYSTEMS[name](Path(corpus), Path(folder))
    if stage == "build":
        print(json.dumps(build(system)), flush=True)
        return
    for line in sys.stdin:
        print(json.dumps(run_command(system, Path(folder), line.strip())), flush=True)


if __name__ == "__main__":
    main()
