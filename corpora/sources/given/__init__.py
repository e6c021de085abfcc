"""`given`: the passages that come with a question, as in reading comprehension."""

from __future__ import annotations

from typing import Any

from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import Bm25Parameters, RerankOptions


class GivenOptions(Bm25Parameters, RerankOptions):
    """Options of a source of kind `given`."""

    kind = "given"


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.given.source import GivenSource

    return GivenSource(inputs.passages, **options)


KIND = SourceKind("given", GivenOptions, _build, corpus="passages", per_question=True)
