"""What the table `options` of a source may say: what several kinds share.

Every field says its unit, range and default in one line: the documentation's reference and the JSON Schema of
recipes are made from them. Its mark says what it has ragc do (`ragc.core.kinds.marks`). The options of one
kind are in its file; a test holds the defaults to those of the sources.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ragc.core.kinds.marks import HARMLESS
from ragc.core.validation import Choice, Key, Number, Options, Switch, Text, Whole, dotted, sentence, shown
from ragc.corpora.chunking.chunk import METHODS
from ragc.corpora.rerank import RERANKER
from ragc.errors import UsageError, nearest

Positive = Annotated[int, Whole(1), HARMLESS]
Above = Annotated[float, Number(above=0), HARMLESS]
FromZero = Annotated[float, Number(low=0), HARMLESS]
Share = Annotated[float, Number(low=0, high=1), HARMLESS]
Overlap = Annotated[float, Number(low=0, below=1), HARMLESS]
Flag = Annotated[bool, Switch(), HARMLESS]
Words = Annotated[str, Text(), HARMLESS]
CutBy = Annotated[str, Choice("way to cut passages", METHODS), HARMLESS]


class SourceOptions(Options):
    """The options of a source; errors name it by `kind`."""

    kind: ClassVar[str] = ""

    @classmethod
    def wrong_value(cls, key: Key, expected: str, value: object) -> UsageError:
        """Returns an error that names the option."""
        return UsageError(f"The option {dotted(key.own)!r} of a source is {expected}, found {shown(value)}.")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """Returns an error that names the kind of source and its options."""
        name, names = str(key.own[-1]), list(cls.model_fields)
        return UsageError(
            f"A source of kind {cls.kind!r} has no option {name!r}.{nearest(name, names)} "
            f"Known: {', '.join(names)}."
        )


class ChunkOptions(SourceOptions):
    """How passages are cut into chunks."""

    chunk_size: Annotated[int | None, Whole(1), HARMLESS] = Field(
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

    half: Annotated[str, Choice("half of a corpus", ("", "first", "second")), HARMLESS] = Field(
        default="",
        description="Half of the corpus that is searched: first or second, told apart by passage id, so that "
        "two sources of one corpus share no passage; empty for all of it.",
    )


class RerankOptions(SourceOptions):
    """A second model that reorders the first hits of a source."""

    rerank: Annotated[str | None, Text(), RERANKER] = Field(
        default=None,
        description='Reranker: "bm25", "embed", "embed:MODEL" or "cross:MODEL"; MODEL is a folder or an id. '
        "Without it the order of the source stays.",
    )
    rerank_pool: Annotated[int | None, Whole(1), HARMLESS] = Field(
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

    k1: FromZero = Field(default=0.9, description="Saturation of term frequency in BM25. From 0.")
    b: Share = Field(default=0.4, description="Weight of the length of a passage in BM25. From 0 to 1.")


class TitleOptions(SourceOptions):
    """Title rules of PrefRAG."""

    titles: Flag = Field(
        default=False, description="Whether passages rise whose title the query names, as in PrefRAG."
    )
