"""Types of fields that several signatures share.

`Percent` is the one scale of confidences and chances: whole per cent, 0 to 100. Scales of other things stay
as their papers have them: RelevanceGrade from -100 to 100 points (CRAG's evaluator: -1 to 1), Utility
from 1 to 5 (Self-RAG).

`Trajectory` is what was done for a question so far, as PrefRAG, RQ-RAG, ReAct and Self-Ask show it to the
model: one text a step, with what was searched for and what was found. It is empty before the first step.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Percent = Annotated[int, Field(ge=0, le=100)]

Trajectory = list[str]
