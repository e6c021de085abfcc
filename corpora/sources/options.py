"""What the table `options` of a source may say, the source that it makes, and the kinds that search a corpus.

Every field says its unit, range and default in one line: the documentation's reference and the JSON Schema of
recipes are made from them. Its mark says what it has ragc do (`ragc.core.marks`). NumPy is not loaded to read
a recipe: `bm25`, `given`, `dense` and `hybrid` are imported when a source is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field, ValidationInfo, field_validator

from ragc.core import tables
from ragc.core.extras import EXTRAS
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice, Table
from ragc.corpora import embed
from ragc.corpora.chunking.chunk import METHODS
from ragc.corpora.rerank import POOL, RERANKER, RerankedSource, make, split
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.titles import TitleSource
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.corpora.storage.corpus import Corpus
    from ragc.store.calls import CallStore

Positive = Annotated[tables.Positive, HARMLESS]
Above = Annotated[tables.Above, HARMLESS]
FromZero = Annotated[tables.FromZero, HARMLESS]
Share = Annotated[tables.Share, HARMLESS]
Overlap = Annotated[tables.FromZero, Field(lt=1), HARMLESS]
Flag = Annotated[tables.Flag, HARMLESS]
Words = Annotated[tables.Words, HARMLESS]
CutBy = Annotated[str, Choice(METHODS), HARMLESS]


class SourceOptions(Table):
    """The options of a kind of source."""


class ChunkOptions(SourceOptions):
    """How passages are cut into chunks."""

    chunk_size: Annotated[tables.Positive | None, HARMLESS] = Field(
        default=None, description="Tokens of a chunk at most. From 1; without it passages stay whole."
    )
    overlap: Overlap = Field(
        default=0.0, description="Share of a chunk that the next one repeats. From 0 to below 1."
    )
    chunk_by: CutBy = Field(
        default="text",
        description="Where passages are cut: text (paragraphs, lines, sentences, words), markdown (headings "
        "and blocks), sections (as markdown, with the section in the title), columns (as markdown, with the "
        "columns of a table in the titles of its later chunks), or both.",
    )


class CorpusHalfOptions(SourceOptions):
    """Which passages of the corpus are searched."""

    half: Annotated[str, Choice(("", "first", "second")), HARMLESS] = Field(
        default="",
        description="Half of the corpus that is searched: first or second, told apart by passage id, so that "
        "two sources of one corpus share no passage; empty for all of it.",
    )


class RerankOptions(SourceOptions):
    """A second model that reorders the first hits of a source."""

    rerank: Annotated[tables.Words | None, RERANKER] = Field(
        default=None,
        description='Reranker: "bm25", "embed", "embed:MODEL" or "cross:MODEL"; MODEL is a folder or an id. '
        "Without it the order of the source stays.",
    )
    rerank_pool: Annotated[tables.Positive | None, HARMLESS] = Field(
        default=None,
        description="Hits of the source that the reranker orders. From 1; 50 without it. Needs rerank.",
    )

    @field_validator("rerank_pool")
    @classmethod
    def _check_pool(cls, pool: int | None, info: ValidationInfo) -> int | None:
        if pool is not None and info.data.get("rerank", "wrong") is None:
            raise ValueError("rerank_pool needs the option rerank")
        return pool


class Bm25Parameters(ChunkOptions):
    """The two parameters of BM25."""

    k1: FromZero = Field(default=0.9, description="Saturation of term frequency in BM25. From 0.")
    b: Share = Field(default=0.4, description="Weight of the length of a passage in BM25. From 0 to 1.")


class TitleOptions(SourceOptions):
    """Title rules of PrefRAG."""

    titles: Flag = Field(
        default=False, description="Whether passages rise whose title the query names, as in PrefRAG."
    )


class SparseOptions(Bm25Parameters):
    """Keyword search: what `bm25` and the sparse part of `hybrid` share."""

    title_boost: Positive = Field(
        default=1, description="How many times a title counts in the term frequency of its passage. From 1."
    )


class Bm25Options(SparseOptions, TitleOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `bm25`."""


class GivenOptions(Bm25Parameters, RerankOptions):
    """Options of a source of kind `given`."""


class VectorOptions(ChunkOptions):
    """Search by meaning: what `dense` and the dense part of `hybrid` share."""

    model: Annotated[tables.Words, embed.EMBEDDER] = Field(
        default=embed.DEFAULT,
        description="Embedding model: the folder of an ONNX model, a folder or an id.",
    )
    index: Annotated[str, Choice(("flat", "hnsw")), HARMLESS] = Field(
        default="flat",
        description="How vectors are searched: flat compares all, hnsw walks a graph and may miss some.",
    )
    m: Annotated[int, Field(strict=True, ge=2), HARMLESS] = Field(
        default=32, description="Neighbours of a node in an hnsw graph. From 2."
    )
    ef_construction: Positive = Field(
        default=200, description="Candidates held while an hnsw graph is built. From 1."
    )
    ef_search: Positive = Field(
        default=128, description="Candidates held while an hnsw graph is searched. From 1."
    )


class DenseOptions(VectorOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `dense`."""


class FusionOptions(SourceOptions):
    """How the hits of two sources become one list."""

    fusion: Annotated[str, Choice(("share", "rrf")), HARMLESS] = Field(
        default="rrf",
        description="How hits are fused: rrf (reciprocal ranks), or share (a share of the hits each).",
    )
    share: Share = Field(
        default=0.5, description="Share of the hits that are dense, with fusion = share. From 0 to 1."
    )
    pool: Positive = Field(
        default=100, description="Hits of each part that are fused, with fusion = rrf. From 1."
    )
    constant: FromZero = Field(
        default=60,  # as in the paper that proposed it (Cormack et al., 2009)
        description="Constant of reciprocal-rank fusion. From 0.",
    )


class HybridOptions(FusionOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `hybrid`."""

    dense: VectorOptions = Field(
        default_factory=VectorOptions,
        description="Options of the dense part, as of a source of kind dense.",
    )
    sparse: SparseOptions = Field(
        default_factory=SparseOptions,
        description="Options of the sparse part, as of a source of kind bm25.",
    )


def build(
    record: SourceKind,
    options: Mapping[str, Any],
    corpus: Corpus | None,
    store: CallStore,
    *,
    recording: str = "",
    resolve: Callable[[str], Path] = Path,
) -> Source:
    """Builds a source of the kind `record`, with nothing sent or indexed yet.

    Kinds that search a corpus need `corpus`. `recording` is the file of a kind that reads one itself;
    `resolve` resolves that path and those in `options`. Raises UsageError for an unknown option or one out of
    range, or a missing library.
    """
    if corpus is None and record.corpus == "passages":
        raise UsageError("A source of this kind searches a corpus; name one.")
    table = record.options.of(options)
    shared = [model for model in (CorpusHalfOptions, TitleOptions, RerankOptions) if isinstance(table, model)]
    inner = {key: options[key] for key in options if not any(key in model.model_fields for model in shared)}
    if corpus is not None and isinstance(table, CorpusHalfOptions) and table.half:
        from ragc.corpora.storage.corpus import half_of

        corpus = half_of(corpus, table.half)
    source = record.build(SourceInputs(cast("Corpus", corpus), store, recording, resolve), inner)
    if isinstance(table, TitleOptions) and table.titles:
        source = TitleSource(source)
    if isinstance(table, RerankOptions) and table.rerank:
        # Stripped before resolving, so that the trusted path and the read path are the same.
        name, model = split(table.rerank)
        is_local = model and resolve(model).exists()
        reranker = make(f"{name}:{resolve(model)}" if is_local else table.rerank)
        source = RerankedSource(source, reranker, pool=table.rerank_pool or POOL)
    return source


def _imported(name: str, inputs: SourceInputs, options: dict[str, Any]) -> Source:
    """Builds a source by `name`, `module:Class.of`, whose module is imported only now."""
    source: Source = resolve_name(f"ragc.corpora.sources.{name}")(inputs, options)
    return source


BM25 = SourceKind("bm25", Bm25Options, partial(_imported, "bm25:Bm25Source.of"), corpus="passages")
GIVEN = SourceKind(
    "given", GivenOptions, partial(_imported, "bm25:GivenSource.of"), corpus="passages", per_question=True
)
DENSE = SourceKind(
    "dense",
    DenseOptions,
    partial(_imported, "dense:DenseSource.of"),
    lambda options: EXTRAS["dense"],
    "passages",
)
HYBRID = SourceKind(
    "hybrid",
    HybridOptions,
    partial(_imported, "hybrid:HybridSource.of"),
    lambda options: EXTRAS["dense"],
    "passages",
)
