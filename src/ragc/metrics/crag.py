"""CRAG's balance of right, missing and made-up answers (Yang et al. 2024, arXiv:2406.04744; RAG-X).

Each question has one verdict, the finding of the family `crag` (`ragc.metrics.crag_judging`):

    {"verdict": "correct" | "missing" | "hallucination", "by": what decided}

so that `crag_acc` + `crag_halluc` + `crag_miss` = 1 and `crag_score` = `crag_acc` - `crag_halluc`, a question
and on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ragc.errors import UsageError
from ragc.metrics.outcome import Metric, Outcome

Verdict = Literal["correct", "missing", "hallucination"]

FAMILY = "crag"

POINTS: Mapping[Verdict, float] = {"correct": 1.0, "missing": 0.0, "hallucination": -1.0}
"""What each verdict adds to `crag_score`."""


def verdict(outcome: Outcome) -> Verdict:
    """The verdict found for `outcome`; raises UsageError when there is none, or none of the three."""
    found = outcome.finding(FAMILY)
    said = found.get("verdict") if isinstance(found, dict) else None
    for known in POINTS:
        if said == known:
            return known
    raise UsageError(
        f"A finding of the family {FAMILY!r} is an object whose `verdict` is one of {', '.join(POINTS)}; "
        f"found {found!r}."
    )


def balance(outcome: Outcome) -> float:
    """1 for a right answer, 0 for a missing one, -1 for a made-up one."""
    return POINTS[verdict(outcome)]


def _share(id: str, about: str, of: Verdict, higher_is_better: bool) -> Metric:
    def score(outcome: Outcome) -> float:
        return float(verdict(outcome) == of)

    return Metric(id, about, "share", higher_is_better, score, reads=FAMILY)


METRICS = (
    _share("crag_acc", "CRAG: exact or judged correct", "correct", True),
    _share("crag_halluc", "CRAG: neither correct nor missing", "hallucination", False),
    _share("crag_miss", "CRAG: says that it does not know, or says nothing", "missing", False),
    Metric("crag_score", "CRAG: crag_acc minus crag_halluc", "balance", True, balance, reads=FAMILY),
)
