"""Which passages a judge can be shown: those that fit its context one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ragc import counters
from ragc.programs.base import shown
from ragc.programs.predict import RagPredict
from ragc.records import Passage


def readable(call: RagPredict, passages: Sequence[Passage], question: str) -> tuple[Passage, ...]:
    """Those of `passages` that fit the context of `call` one at a time; others are counted as trimmed."""
    kept = tuple(p for p in passages if call.fits(question=question, passage=shown(p)))
    if len(kept) < len(passages):
        counters.count(trimmed=len(passages) - len(kept))
    return kept
