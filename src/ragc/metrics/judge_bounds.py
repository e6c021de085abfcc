"""Upper bounds on the judge's calls for the findings of one answer."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ragc.metrics import citations, crag, judge
from ragc.metrics.base import GraderSettings
from ragc.records import Question


def most_judge_calls(families: Iterable[str], settings: GraderSettings, question: Question) -> float:
    """The maximum number of typed calls; infinite where it depends on the answer's length.

    `settings` decides which findings use the judge. One call takes a second request when its reply cannot be
    read.
    """
    return sum(_of_family(family, settings, question) for family in families)


def _of_family(family: str, settings: GraderSettings, question: Question) -> float:
    judged = settings.entailment == "judge"
    match family:
        case judge.FAMILY:
            return 1
        case crag.FAMILY if settings.crag_judge != "none":
            many = settings.crag_judge == "meta" and settings.alternatives
            return len(question.answers) if many else 1
        case citations.CLAIMS if judged:
            claims = question.extra.get("claims") or ()
            return len(claims) if isinstance(claims, list | tuple) else 0
        case citations.CITATIONS if judged:
            return math.inf
        case _:
            return 0
