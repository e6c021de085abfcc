"""Answers drawn several times, and verdicts asked for twice: what they say by metric."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.base import Outcome, families
from ragc.metrics.stats.replicates import VarianceShares, variance_shares
from ragc.metrics.stats.resample import Interval, mean_ci
from ragc.programs.base import RagProgram
from ragc.targets.base import Target
from ragc.task.answering import Row
from ragc.task.base import Task, scorer_of


def check_repeats(replicates: int, again: int, program: RagProgram, task: Task) -> None:
    """Raises UsageError for numbers that are none, for several replicates that are known to be equal, and for
    answers to judge again where no metric asks a judge.
    """
    if type(replicates) is not int or replicates < 1:
        raise UsageError(f"Replicates must be a whole number of 1 or more, found {replicates!r}.")
    if type(again) is not int or again < 0:
        raise UsageError(f"Answers to judge again are a whole number of 0 or more, found {again!r}.")
    drawn = any(
        (call.config.get("temperature") or call.sampling.temperature) > 0 for _, call in program.named_calls()
    )
    others = (target for role, target in task.runtime.targets.items() if role != "judge")
    if replicates > 1 and not drawn and not any(map(_draws_itself, others)):
        raise UsageError(
            f"{replicates} replicates would be equal, as every call is made at temperature 0; set "
            "knobs.temperature above 0, or leave replicates out."
        )
    if again and not (task.scorer.backends and "judge" in task.runtime.targets):
        raise UsageError(
            "No metric of metrics.report asks a judge, so there is nothing to judge again; report one such "
            "as judge_acc and add [targets.judge], or leave it out."
        )


def _draws_itself(target: Target) -> bool:
    """Returns whether `target` may draw replies at temperature 0, too.

    A hosted model may take no temperature of ours, and options may set another one.
    """
    options = getattr(target, "options", None)
    return getattr(options, "kind", "") == "hosted" or "temperature" in getattr(options, "sent", {})


def variances_of(drawn: Sequence[Sequence[Row]], task: Task) -> dict[str, VarianceShares]:
    """Returns the variance components of each metric that is a mean over questions.

    `drawn` are the rows of each draw, in the same order. Questions to which a metric does not apply in some
    draw are left out.
    """
    components = {}
    for metric in task.metrics:
        if metric.combine is not None:
            continue
        table = [[row.scores.get(metric.id) for row in rows] for rows in zip(*drawn, strict=True)]
        whole = [[s for s in scores if s is not None] for scores in table if None not in scores]
        if shares := variance_shares(whole, seed=task.seed):
            components[metric.id] = shares
    return components


def replicates_json(variances: Mapping[str, VarianceShares]) -> dict[str, Any]:
    """Returns the number of draws and the components by metric, as JSON values."""
    number = next(shares.replicates for shares in variances.values())
    return {"n": number, "metrics": {name: shares.to_json() for name, shares in variances.items()}}


@dataclass(frozen=True, slots=True)
class SecondVerdicts:
    """How often a judge scored the same answers otherwise when it was asked again.

    `changed` is the share of its answers whose score differs, with its interval.
    """

    changed: Interval

    @property
    def text(self) -> str:
        """A sentence for people."""
        n, share = self.changed.n, self.changed.mean
        if not share:
            return (
                f"asked again, the judge scored all {n} answers the same (a disagreement of at most "
                f"{self.changed.high:.0%}); that shows that it repeats itself, not that it is right."
            )
        if share == 1:
            return (
                f"asked again, the judge scored none of {n} answers the same; its scores say nothing, so "
                "choose another judge."
            )
        return (
            f"asked again, the judge scored {round(share * n)} of {n} answers otherwise ({share:.0%} "
            f"[{self.changed.low:.0%}, {self.changed.high:.0%}]); the interval of the mean holds it already."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "changed": self.changed.mean,
            "ci": [self.changed.low, self.changed.high],
            "n": self.changed.n,
        }


async def judge_again(rows: Sequence[Row], answers: int, task: Task) -> dict[str, SecondVerdicts]:
    """Asks the judge again about at most `answers` of `rows` that it judged, drawn at random by the task's
    seed.

    Returns for each metric whose findings it was asked for how often the score changed; empty where it judged
    none.
    """
    judged = [row for row in rows if row.judging.get("lm_calls")]
    sample = random.Random(task.seed).sample(judged, min(answers, len(judged)))
    reading = [
        metric for metric in task.metrics if metric.reads in task.scorer.backends and not metric.combine
    ]
    runtime = task.runtime.repeated(judge=True)
    scorer = scorer_of(reading, task.recipe, runtime, runtime.gateway.store)
    by_family = [[one for one in reading if one.reads == family] for family in families(reading)]
    changed: dict[str, list[float]] = {metric.id: [] for metric in reading}
    for row in sample:
        outcome = Outcome.of(row.question, row.prediction, row.passages, row.counters)
        for metrics in by_family:
            again = await scorer.only(metrics).score(outcome)
            if again.cost.get("lm_calls"):  # else a rule or a model decided, and always decides alike
                for metric in metrics:
                    changed[metric.id].append(float(again.scores[metric.id] != row.scores[metric.id]))
    return {name: SecondVerdicts(mean_ci(flags, seed=task.seed)) for name, flags in changed.items() if flags}
