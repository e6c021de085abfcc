"""The options of a target of kind `hosted`."""

from __future__ import annotations

from pydantic import Field

from ragc.targets.options import Positive, ServerOptions


class HostedOptions(ServerOptions):
    """Options of a target of kind `hosted`; LiteLLM has one timeout for connecting and reading."""

    kind = "hosted"

    concurrency: Positive = Field(default=16, description="Requests in flight at once. From 1.")
