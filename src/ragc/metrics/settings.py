"""Settings of graders: the keys of a recipe's table `[metrics]` other than `report`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from ragc.core.tables import Choice, Flag, Table


def _check_entailment(name: str) -> str:
    if not re.fullmatch(r"lexical|judge|nli:\s*\S.*", name):
        raise ValueError('must be "lexical", "judge" or "nli:PATH_OR_ID"')
    return name


class GraderSettings(Table):
    """How graders find out what some metrics read."""

    entailment: Annotated[str, AfterValidator(_check_entailment)] = Field(
        default="lexical",
        description="What decides whether a text supports a claim: lexical (shared words), judge (the target "
        "judge) or nli:PATH_OR_ID (an NLI model).",
    )
    crag_judge: Annotated[str, Choice(("auto", "ragx", "meta", "none"))] = Field(
        default="auto",
        description="Prompt of the CRAG judge: ragx or meta; none counts exact answers only; auto is ragx "
        "where there is a judge.",
    )
    alternatives: Flag = Field(
        default=False,
        description="Whether every gold answer of a CRAG question counts, instead of the first.",
    )
