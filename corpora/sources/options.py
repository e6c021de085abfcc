"""What the table `options` of a source may say: one model a kind.

Every field says its unit, range and default in one line: the documentation's reference and the JSON Schema of
recipes are made from them. Importing this module loads no search library; a test holds the defaults to those
of the sources.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ragc.core.validation import Choice, Key, Number, Options, Switch, Text, Whole, dotted, sentence, shown
from ragc.corpora.chunking.chunk import METHODS
from ragc.errors import UsageError, nearest

Positive = Annotated[int, Whole(1)]
Above = Annotated[float, Number(above=0)]
Share = Annotated[float, Number(low=0, high=1)]
Flag = Annotated[bool, Switch()]


class SourceOptions(Options):
    """The options of a source; `kind` is how errors name it."""

    kind: ClassVar[str] = ""

    @classmethod
    def wrong_value(cls, key: Key, expected: str, value: object) -> UsageError:
        """Say of which option."""
        return UsageError(f"The option {dotted(key.own)!r} of a source is {expected}, found {shown(value)}.")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """Say of which kind of source, and what it has."""
        name, names = str(key.own[-1]), list(cls.model_fields)
        return UsageError(
            f"A source of kind {cls.kind!r} has no option {name!r}.{nearest(name, names)} "
            f"Known: {', '.join(names)}."
        )


class ChunkOptions(SourceOptions):
    """How passages are cut into chunks."""

    chunk_size: Annotated[int | None, Whole(1)] = Field(
        default=None, description="Tokens of a chunk at most. From 1; without it passages stay whole."
    )
    overlap: Annotated[float, Number(low=0, below=1)] = Field(
        default=0.0, description="Share of a chunk that the next one repeats. From 0 to below 1."
    )
    chunk_by: Annotated[str, Choice("way to cut passages", METHODS)] = Field(
        default="text",
        description="Where passages are cut: text (paragraphs, lines, sentences, words), markdown (headings "
        "and blocks), or sections (as markdown, with the section in the title).",
    )


class HalfOptions(SourceOptions):
    """Which passages of the corpus are searched."""

    half: Annotated[str, Choice("half of a corpus", ("", "first", "second"))] = Field(
        default="",
        description="Half of the corpus that is searched: first or second, told apart by passage id, so that "
        "two sources of one corpus share no passage; empty for all of it.",
    )


class RerankOptions(SourceOptions):
    """A second model that orders the first hits of a source anew."""

    rerank: Annotated[str | None, Text()] = Field(
        default=None,
        description='Reranker: "bm25", "embed", "embed:MODEL" or "cross:MODEL"; MODEL is a folder or an id. '
        "Without it the order of the source stays.",
    )
    rerank_pool: Annotated[int | None, Whole(1)] = Field(
        default=None,
        description="Hits of the source that the reranker orders. From 1; 50 without it. Needs rerank.",
    )

    @field_validator("rerank_pool")
    @classmethod
    def _check_pool(cls, pool: int | None, info: ValidationInfo) -> int | None:
        if pool is not None and info.data.get("rerank", "wrong") is None:
            raise sentence(UsageError("The option 'rerank_pool' of a source needs the option 'rerank'."))
        return pool


class Bm25Parameters(ChunkOptions):
    """The two parameters of BM25."""

    k1: Annotated[float, Number(low=0)] = Field(
        default=0.9, description="Saturation of term frequency in BM25. From 0."
    )
    b: Share = Field(default=0.4, description="Weight of the length of a passage in BM25. From 0 to 1.")


class SparseOptions(Bm25Parameters):
    """Keyword search: what `bm25` and the sparse part of `hybrid` share."""

    kind = "bm25"

    title_boost: Positive = Field(
        default=1, description="How many times a title counts in the term frequency of its passage. From 1."
    )


class TitleOptions(SourceOptions):
    """Title rules of PrefRAG."""

    titles: Flag = Field(
        default=False, description="Whether passages rise whose title the query names, as in PrefRAG."
    )


class Bm25Options(SparseOptions, TitleOptions, RerankOptions, HalfOptions):
    """Options of a source of kind `bm25`."""


class GivenOptions(Bm25Parameters, RerankOptions):
    """Options of a source of kind `given`."""

    kind = "given"


class LuceneOptions(Bm25Parameters, TitleOptions, RerankOptions, HalfOptions):
    """Options of a source of kind `lucene`."""

    kind = "lucene"

    title_boost: Annotated[float, Number(low=0)] = Field(
        default=0.0, description="Weight of a match in the title beside one in the text. From 0."
    )
    analyzer: Annotated[str, Choice("analyzer", ("ragc", "english", "standard"))] = Field(
        default="ragc",
        description="How texts become terms: ragc (as bm25 does), english or standard (Lucene's own).",
    )


class VectorOptions(ChunkOptions):
    """Search by meaning: what `dense` and the dense part of `hybrid` share."""

    kind = "dense"

    model: Annotated[str, Text()] = Field(
        default="all-MiniLM-L6-v2",
        description="Embedding model: the folder of an ONNX model, a folder or an id.",
    )
    index: Annotated[str, Choice("index of vectors", ("flat", "hnsw"))] = Field(
        default="flat",
        description="How vectors are searched: flat compares all, hnsw walks a graph and may miss some.",
    )
    m: Annotated[int, Whole(2)] = Field(
        default=32, description="Neighbours of a node in an hnsw graph. From 2."
    )
    ef_construction: Positive = Field(
        default=200, description="Candidates held while an hnsw graph is built. From 1."
    )
    ef_search: Positive = Field(
        default=128, description="Candidates held while an hnsw graph is searched. From 1."
    )


class DenseOptions(VectorOptions, RerankOptions, HalfOptions):
    """Options of a source of kind `dense`."""


class HybridOptions(RerankOptions, HalfOptions):
    """Options of a source of kind `hybrid`."""

    kind = "hybrid"

    fusion: Annotated[str, Choice("way to fuse hits", ("share", "rrf"))] = Field(
        default="rrf",
        description="How hits are fused: rrf (reciprocal ranks), or share (a share of the hits each).",
    )
    share: Share = Field(
        default=0.5, description="Share of the hits that are dense, with fusion = share. From 0 to 1."
    )
    pool: Positive = Field(
        default=100, description="Hits of each part that are fused, with fusion = rrf. From 1."
    )
    constant: Annotated[float, Number(low=0)] = Field(
        default=60, description="Constant of reciprocal-rank fusion. From 0."
    )
    dense: VectorOptions = Field(
        default_factory=VectorOptions, description="Options of the dense part, as of a source of kind dense."
    )
    sparse: SparseOptions = Field(
        default_factory=SparseOptions, description="Options of the sparse part, as of a source of kind bm25."
    )


class WebOptions(RerankOptions):
    """Options of a source of kind `web`."""

    kind = "web"

    results: Positive = Field(default=10, description="Results of one search that are read. From 1.")
    pages: Flag = Field(
        default=False,
        description="Whether whole pages are fetched and cut; else the snippets are the passages.",
    )
    chunk_size: Positive = Field(default=256, description="Tokens of a chunk of a page at most. From 1.")
    overlap: Annotated[float, Number(low=0, below=1)] = Field(
        default=0.0, description="Share of a chunk that the next one repeats. From 0 to below 1."
    )
    chunk_by: Annotated[str, Choice("way to cut passages", METHODS)] = Field(
        default="text", description="Where pages are cut: text, markdown or sections."
    )
    per_second: Above = Field(default=1.0, description="Requests a second at most. Above 0.")
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    backoff: Annotated[float, Number(low=0)] = Field(
        default=1.0, description="Seconds before the second try, doubled for each further one. From 0."
    )
    seconds: Above = Field(default=60.0, description="Seconds for all tries of one search. Above 0.")
    engines: Annotated[str, Text()] = Field(
        default="auto", description="Search engines of ddgs, separated by commas; auto chooses."
    )
    region: Annotated[str, Text()] = Field(
        default="us-en", description="Region of the search, as ddgs names it."
    )
    window: Annotated[str, Choice("span of time", ("", "d", "w", "m", "y"))] = Field(
        default="",
        description="Age of results at most: d, w, m or y for a day, week, month or year; empty for any.",
    )


class RecordedOptions(ChunkOptions, RerankOptions):
    """Options of a source of kind `recorded`."""

    kind = "recorded"

    unknown: Annotated[str, Choice("way to treat unknown queries", ("nearest", "nothing", "error"))] = Field(
        default="nearest",
        description="What a query that was not recorded gets: the hits of the nearest, nothing, or an error.",
    )


class ApiOptions(RerankOptions):
    """Options of a source of kind `api`."""

    kind = "api"

    base_url: Annotated[str, Text()] = Field(
        description="Address of the CRAG mock API.", examples=["http://127.0.0.1:8000"]
    )
    timeout_s: Above = Field(default=10.0, description="Seconds to wait for one reply. Above 0.")
    connect_timeout_s: Above = Field(default=5.0, description="Seconds to wait for a connection. Above 0.")
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    concurrency: Positive = Field(default=8, description="Requests in flight at once. From 1.")

    @classmethod
    def missing_key(cls, key: Key) -> UsageError:
        """Say what a source of this kind cannot do without."""
        return UsageError(
            "A source of kind 'api' needs the address of the mock API: options.base_url = "
            '"http://127.0.0.1:8000".'
        )


OPTIONS: dict[str, type[SourceOptions]] = {
    "bm25": Bm25Options,
    "given": GivenOptions,
    "lucene": LuceneOptions,
    "dense": DenseOptions,
    "hybrid": HybridOptions,
    "web": WebOptions,
    "recorded": RecordedOptions,
    "api": ApiOptions,
}
"""The options of a source by its kind."""
