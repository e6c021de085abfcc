"""Scores outcomes: graders produce their findings first, each once, then every metric scores.

`make` builds the graders by family from a recipe's table `[metrics]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from ragc.core.counters import Counters, counting
from ragc.errors import UsageError
from ragc.metrics.base import (
    Finding,
    Grader,
    GraderInputs,
    GraderKind,
    JudgeCall,
    Metric,
    Outcome,
    families,
    grade,
)
from ragc.records import Question

if TYPE_CHECKING:
    from ragc.metrics.entailment.base import Entailer
    from ragc.metrics.settings import GraderSettings
    from ragc.store.call_store import CallStore


def grader_kinds(families: Sequence[str]) -> tuple[GraderKind, ...]:
    """Returns the graders of ragc that make the findings of `families`."""
    if not families:
        return ()
    from ragc.metrics import citations, crag, judge
    from ragc.metrics.judged import without_gold

    kinds = (*crag.GRADERS, *judge.GRADERS, *without_gold.GRADERS, *citations.GRADERS)
    by_family = {kind.family: kind for kind in kinds}
    return tuple(by_family[family] for family in families if family in by_family)


@dataclass(frozen=True, slots=True)
class OutcomeScores:
    """The scores of one outcome by metric id; None if a metric does not apply.

    `findings` are the findings by family, `cost` their cost (amounts by name, empty without calls). It is the
    judge's cost, not the program's.
    """

    scores: Mapping[str, float | None]
    findings: Mapping[str, Finding] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scorer:
    """`metrics`, and a grader for each family that they read.

    Raises UsageError when a grader is missing.
    """

    metrics: tuple[Metric, ...]
    assessors: Mapping[str, Grader] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for family in families(self.metrics):
            if family not in self.assessors:
                asking = ", ".join(m.id for m in self.metrics if m.reads == family)
                raise UsageError(f"{asking} need findings of the family {family!r}, and nothing makes them.")

    @classmethod
    def of(cls, *metrics: Metric) -> Scorer:
        """Returns a scorer of metrics that need no findings."""
        return cls(metrics)

    def only(self, metrics: Sequence[Metric]) -> Scorer:
        """Returns the same scorer for some of its metrics."""
        needed = families(metrics)
        return Scorer(tuple(metrics), {name: a for name, a in self.assessors.items() if name in needed})

    @property
    def backends(self) -> dict[str, str]:
        """The backend of each family's findings."""
        return {family: self.assessors[family].backend for family in families(self.metrics)}

    async def score(self, outcome: Outcome) -> OutcomeScores:
        """Returns the scores of `outcome`. Raises RagcError when a finding cannot be determined."""
        needed = [self.assessors[family] for family in families(self.metrics)]
        if not needed:
            return OutcomeScores({metric.id: metric.score(outcome) for metric in self.metrics})
        with counting(Counters()) as cost:
            known = await grade(outcome, needed)
        scores = {metric.id: metric.score(known) for metric in self.metrics}
        return OutcomeScores(scores, known.findings, {k: v for k, v in cost.to_json().items() if v})


def make(
    families: Sequence[str],
    settings: GraderSettings,
    ask: JudgeCall | None,
    *,
    store: CallStore | None = None,
) -> dict[str, Grader]:
    """Returns a grader for each of `families`.

    `ask` calls the judge, None without one; rules that need no judge never use it. `store` stores the
    verdicts of NLI models. Raises UsageError when a judge is needed and there is none, or a model or library
    is missing; UnknownName for an unknown option.
    """

    @cache
    def entailer() -> Entailer:
        from ragc.metrics import entailment

        return entailment.make(settings.entailment, ask, store=store)

    inputs = GraderInputs(settings, ask, entailer)
    return {kind.family: kind.build(inputs) for kind in grader_kinds(families)}


def most_judge_calls(families: Sequence[str], settings: GraderSettings, question: Question) -> float:
    """Returns the maximum number of typed calls of the judge for the findings of one answer to `question`.

    Infinite where it depends on the answer's length. `settings` decides which findings use the judge. One
    call takes a second request when its reply cannot be read.
    """
    return sum(kind.calls(settings, question) for kind in grader_kinds(families))
