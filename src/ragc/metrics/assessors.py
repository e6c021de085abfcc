"""The assessors by family, made as a recipe's table `[metrics]` says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ragc.errors import UsageError
from ragc.metrics import citations, crag, entailment, judging
from ragc.metrics.assessing import Ask, Assessing, Assessor
from ragc.metrics.crag_judging import CragAssessor

if TYPE_CHECKING:
    from ragc.store import CallStore


def make(
    families: Iterable[str], settings: Assessing, ask: Ask | None, *, store: CallStore | None = None
) -> dict[str, Assessor]:
    """An assessor for each of `families`.

    `ask` is the judge's, None when there is none; it is never asked in place of a rule that needs nobody.
    `store` keeps the verdicts of NLI models. Raises UsageError when a judge is needed and there is none, or
    a model or library is missing; UnknownName for an option that is not known.
    """
    made: dict[str, Assessor] = {}
    wanted = tuple(dict.fromkeys(families))
    if crag.FAMILY in wanted:
        made[crag.FAMILY] = CragAssessor(ask, settings)
    if judging.FAMILY in wanted:
        if ask is None:
            raise UsageError("The metric judge_acc asks a judge, and there is none; add [targets.judge].")
        made[judging.FAMILY] = judging.JudgeAssessor(ask)
    if citations.CLAIMS in wanted or citations.CITATIONS in wanted:
        entailer = entailment.make(settings.entailment, ask, store=store)
        if citations.CLAIMS in wanted:
            made[citations.CLAIMS] = citations.ClaimAssessor(entailer)
        if citations.CITATIONS in wanted:
            made[citations.CITATIONS] = citations.CitationAssessor(entailer)
    return made
