"""Scoring outcomes: what must be found out first is found out, once, then every metric scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragc.counters import Counters, counting
from ragc.errors import UsageError
from ragc.metrics.assessing import Assessor, assessed, families
from ragc.metrics.outcome import Finding, Metric, Outcome


@dataclass(frozen=True, slots=True)
class Scored:
    """One outcome scored by metric id; None where a metric does not apply.

    `found` are the findings by family, `cost` what finding them took (amounts by name, empty when nothing
    was asked): it is the judge's, not the program's.
    """

    scores: Mapping[str, float | None]
    found: Mapping[str, Finding] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scorer:
    """`metrics`, and an assessor for each family that they read.

    Raises UsageError when an assessor is missing.
    """

    metrics: tuple[Metric, ...]
    assessors: Mapping[str, Assessor] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for family in families(self.metrics):
            if family not in self.assessors:
                asking = ", ".join(m.id for m in self.metrics if m.reads == family)
                raise UsageError(f"{asking} need findings of the family {family!r}, and nothing makes them.")

    @classmethod
    def of(cls, *metrics: Metric) -> Scorer:
        """A scorer of metrics that need no findings."""
        return cls(metrics)

    def only(self, metrics: Sequence[Metric]) -> Scorer:
        """The same scorer for some of its metrics."""
        wanted = families(metrics)
        return Scorer(tuple(metrics), {name: a for name, a in self.assessors.items() if name in wanted})

    @property
    def backends(self) -> dict[str, str]:
        """What each family's findings come from."""
        return {family: self.assessors[family].backend for family in families(self.metrics)}

    async def score(self, outcome: Outcome) -> Scored:
        """The scores of `outcome`. Raises RagcError when something cannot be found out."""
        needed = [self.assessors[family] for family in families(self.metrics)]
        if not needed:
            return Scored({metric.id: metric.score(outcome) for metric in self.metrics})
        with counting(Counters()) as cost:
            known = await assessed(outcome, needed)
        scores = {metric.id: metric.score(known) for metric in self.metrics}
        return Scored(scores, known.found, {k: v for k, v in cost.to_json().items() if v})
