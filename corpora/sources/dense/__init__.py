"""`dense`: vector search with an embedder and FAISS."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.extras import EXTRAS
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice, Words
from ragc.corpora import embed
from ragc.corpora.embed import DEFAULT
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import ChunkOptions, CorpusHalfOptions, Positive, RerankOptions


class VectorOptions(ChunkOptions):
    """Search by meaning: what `dense` and the dense part of `hybrid` share."""

    model: Annotated[Words, embed.EMBEDDER] = Field(
        default=DEFAULT,
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


def build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    """Builds the source over the passages of `inputs`; no model is loaded."""
    from ragc.corpora.sources.dense.source import DenseSource

    model = str(options.pop("model", DEFAULT))
    folder = inputs.resolve(model)
    return DenseSource(inputs.passages, embed.make(str(folder) if folder.is_dir() else model), **options)


KIND = SourceKind("dense", DenseOptions, build, lambda options: EXTRAS["dense"], "passages")
