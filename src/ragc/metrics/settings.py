"""Settings of graders: the keys of a recipe's table `[metrics]` other than `report`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragc.core.validation import Choice, Model, Switch, Text

CRAG_JUDGES = ("auto", "ragx", "meta", "none")


class GraderSettings(Model):
    """How graders find out what some metrics read."""

    entailment: Annotated[
        str, Text(expected='"lexical", "judge" or "nli:PATH_OR_ID"', pattern=r"^(lexical|judge|nli:\s*\S.*)$")
    ] = Field(
        default="lexical",
        description="What decides whether a text supports a claim: lexical (shared words), judge (the target "
        "judge) or nli:PATH_OR_ID (an NLI model).",
    )
    crag_judge: Annotated[str, Choice("way to judge CRAG", CRAG_JUDGES)] = Field(
        default="auto",
        description="Prompt of the CRAG judge: ragx or meta; none counts exact answers only; auto is ragx "
        "where there is a judge.",
    )
    alternatives: Annotated[bool, Switch()] = Field(
        default=False,
        description="Whether every gold answer of a CRAG question counts, instead of the first.",
    )
