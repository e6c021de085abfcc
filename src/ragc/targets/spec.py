"""The record of a table `[targets.NAME]`; importing it loads no client of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ragc.core.validation import JsonTable, Model, Text

Words = Annotated[str, Text()]


class TargetSpec(Model):
    """A table `[targets.NAME]`: what every kind has. In a `Recipe`, `options` are as they were written."""

    unknown_hint = (
        " What only one kind understands goes into an `options` table; keys come from the environment."
    )

    model: Words = Field(
        default="", description="Model: a GGUF file (embedded), the server's name of it, or a LiteLLM id."
    )
    base_url: Words = Field(default="", description="Address of the server; without name, password or key.")
    kind: str = ""
    options: Annotated[Mapping[str, Any], JsonTable()] = Field(default_factory=dict)
