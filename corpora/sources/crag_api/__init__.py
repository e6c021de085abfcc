"""`api`: the CRAG mock API, facts on finance, music, movies and sports by name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.extras import EXTRAS
from ragc.core.marks import Does
from ragc.core.tables import Words
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import Above, Positive, RerankOptions


class ApiOptions(RerankOptions):
    """Options of a source of kind `api`."""

    kind = "api"

    base_url: Annotated[Words, Does("speaks", "searches this API")] = Field(
        description="Address of the CRAG mock API.", examples=["http://127.0.0.1:8000"]
    )
    timeout_s: Above = Field(default=10.0, description="Seconds to wait for one reply. Above 0.")
    connect_timeout_s: Above = Field(default=5.0, description="Seconds to wait for a connection. Above 0.")
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    concurrency: Positive = Field(default=8, description="Requests in flight at once. From 1.")


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.crag_api.source import ApiSource

    return ApiSource(options.pop("base_url"), **options)


KIND = SourceKind("api", ApiOptions, _build, lambda options: EXTRAS["api"], per_question=True)
