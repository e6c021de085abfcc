"""The options of a target of kind `embedded`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragc.core.marks import HARMLESS
from ragc.targets.options import Duration, Flag, Natural, Positive, TargetOptions


class EmbeddedOptions(TargetOptions):
    """Options of a target of kind `embedded`: a model inside this process."""

    kind = "embedded"

    context: Annotated[int, Field(strict=True, ge=64), HARMLESS] = Field(
        default=4096,
        description="Tokens of prompt and reply together. From 64; the default model takes up to 8192.",
    )
    parallel: Positive = Field(
        default=4, description="Requests answered at once, each with a context of its own. From 1."
    )
    threads: Natural = Field(
        default=0,
        description="Processor threads that compute. 0 uses the physical cores that this process may use.",
    )
    timeout_s: Duration = Field(
        default=600.0, description="Seconds after which a reply is given up. Above 0."
    )
    quiet: Flag = Field(
        default=True, description="Whether llama.cpp is silent. false lets it write to stderr."
    )
