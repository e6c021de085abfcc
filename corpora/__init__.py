"""Documents and data sets: readers, chunking and search.

    jsonl file ──► readers ──► Question, Passage ──► splits: train, dev, test
                                   │
                                   └──► bm25, given (sources) ──► chunking ──► tokens

Importing this package loads no library. `SOURCES` and `DATASETS` list the names that a recipe can use.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.core.plugins import Registry
from ragc.corpora.sources.base import SourceKind


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set that a recipe can name: its id and one line about it."""

    id: str
    about: str


_IN = "ragc.corpora.sources"


def _guard(record: SourceKind, subject: str) -> SourceKind:
    """Returns the kind of another package, whose errors are blamed on it."""
    from ragc.corpora.sources.function import guard

    return guard(record, subject)


def _own(reference: str) -> SourceKind:
    """Returns the kind of a function or class of the user's own, `module:name`."""
    from ragc.corpora.sources.function import own_kind

    return own_kind(reference)


SOURCES = Registry(
    "ragc.sources",
    "source kind",
    SourceKind,
    {
        "bm25": (
            f"{_IN}.options:BM25",
            "keyword search over a corpus file, scored as Lucene does; a large one is indexed on disk",
        ),
        "given": (
            f"{_IN}.options:GIVEN",
            "the passages that come with each question (`context_ids`), ranked by BM25",
        ),
        "lucene": (f"{_IN}.lucene", "keyword search by Lucene over an index on disk (extra `lucene`)"),
        "dense": (
            f"{_IN}.options:DENSE",
            "search by meaning: an ONNX or sentence-transformers model and FAISS (extra `dense`)",
        ),
        "hybrid": (
            f"{_IN}.options:HYBRID",
            "`dense` and `bm25` over one corpus, fused by reciprocal ranks or by shares",
        ),
        "web": (
            f"{_IN}.web.source",
            "search engines of the web, their snippets or whole pages (extra `web`)",
        ),
        "recorded": (f"{_IN}.recorded", "results recorded in a file, for offline studies of web search"),
        "api": (
            f"{_IN}.crag_api",
            "the CRAG mock API: facts on finance, music, movies and sports by name (extra `api`)",
        ),
    },
    guard=_guard,
    own=_own,
)
"""The kinds of sources, by name."""

DATASETS: tuple[Entry, ...] = (
    Entry("jsonl", "your own files of any shape: JSON, JSON lines, CSV, TSV, Parquet, with a field map"),
    Entry("hf:ORG/NAME", "a data set of the Hugging Face Hub, or a folder in its format (extra `hub`)"),
    Entry("pybuiltins", "short questions about Python's built-ins, answered from their docstrings"),
    Entry("pydocs", "questions about Python, answered from the language reference inside the interpreter"),
)
