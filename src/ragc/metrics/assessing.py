"""Findings: what must be asked of a judge, a model or a rule before some metrics can score.

    Outcome ──► Assessor of each family that a metric reads ──► Finding(value, backend) ──► Metric.score

An assessor runs once a question, however many metrics read its family. It lives outside the program that
is scored: what it costs is counted apart, and never as the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ragc.metrics.outcome import Finding, Metric, Outcome


class Ask(Protocol):
    """A typed call of the judge: outputs by name, checked against the signature.

    `name` is the judge's, as reports print it. Raises ParseFailure when no reply can be read, TargetError
    and its kin when the endpoint fails.
    """

    @property
    def name(self) -> str:
        """What answers: a model's name."""
        ...

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        """The outputs of `signature`, a DSPy signature class, for `inputs`."""
        ...


class Assessor(Protocol):
    """Finds out what the metrics of one family read."""

    @property
    def family(self) -> str:
        """What metrics name in `reads`."""
        ...

    @property
    def backend(self) -> str:
        """What the findings come from, such as "lexical" or "judge openai/gpt-4o-mini, prompt ragx"."""
        ...

    async def assess(self, outcome: Outcome) -> Any:
        """A JSON value for `outcome`; raises RagcError when it cannot be found out."""
        ...


CRAG_JUDGES = ("auto", "ragx", "meta", "none")
"""How a CRAG answer that is not exact can be judged."""


@dataclass(frozen=True, slots=True)
class Assessing:
    """How families are assessed: the options of a recipe's table `[metrics]`, beside `report`.

    `entailment` is "lexical", "judge" or "nli:PATH_OR_ID". `crag_judge` is "ragx" or "meta", the judge's
    prompt, or "none": then only an exact answer counts as right; "auto" is "ragx" where there is a judge.
    `alternatives` accepts every gold answer of a CRAG question instead of the first.
    """

    entailment: str = "lexical"
    crag_judge: str = "auto"
    alternatives: bool = False


async def assessed(outcome: Outcome, assessors: Iterable[Assessor]) -> Outcome:
    """`outcome` with the finding of every assessor."""
    found = {a.family: Finding(await a.assess(outcome), a.backend) for a in assessors}
    return replace(outcome, found={**outcome.found, **found}) if found else outcome


def families(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """The families that `metrics` read, each once, in order."""
    return tuple(dict.fromkeys(metric.reads for metric in metrics if metric.reads))
