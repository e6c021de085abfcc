"""What the table `options` of a source may say: what several kinds share, and the source that it makes.

Every field says its unit, range and default in one line: the documentation's reference and the JSON Schema of
recipes are made from them. Its mark says what it has ragc do (`ragc.core.marks`). The options of one
kind are in its file; a test holds the defaults to those of the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, ValidationInfo, field_validator

from ragc.core import tables
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice, Table
from ragc.corpora.chunking.chunk import METHODS
from ragc.corpora.rerank import POOL, RERANKER, RerankedSource, make, split
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.titles import TitleSource
from ragc.corpora.storage.corpus import Corpus, half_of
from ragc.errors import UsageError
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
        corpus = half_of(corpus, table.half)
    source = record.build(SourceInputs(cast(Corpus, corpus), store, recording, resolve), inner)
    if isinstance(table, TitleOptions) and table.titles:
        source = TitleSource(source)
    if isinstance(table, RerankOptions) and table.rerank:
        # Stripped before resolving, so that the trusted path and the read path are the same.
        name, model = split(table.rerank)
        is_local = model and resolve(model).exists()
        reranker = make(f"{name}:{resolve(model)}" if is_local else table.rerank)
        source = RerankedSource(source, reranker, pool=table.rerank_pool or POOL)
    return source
