"""Answers to the same questions drawn several times: what may be asked for, and what it says by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.stats.replicates import VarianceShares, variance_shares
from ragc.programs.base import RagProgram
from ragc.targets.base import Target
from ragc.task.answering import Row
from ragc.task.base import Task


def check_replicates(replicates: int, program: RagProgram, task: Task) -> None:
    """Raises UsageError for fewer than one replicate, and for several that are known to be equal."""
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise UsageError(f"Replicates must be a whole number of 1 or more, found {replicates!r}.")
    drawn = any(
        (call.config.get("temperature") or call.sampling.temperature) > 0 for call in program.predictors()
    )
    if replicates == 1 or drawn:
        return
    if not any(map(_draws_itself, (t for role, t in task.runtime.targets.items() if role != "judge"))):
        raise UsageError(
            f"{replicates} replicates would be equal, as every call is made at temperature 0; set "
            "knobs.temperature above 0, or leave replicates out."
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
    found = {}
    for metric in task.metrics:
        if metric.combine is not None:
            continue
        table = [[row.scores.get(metric.id) for row in rows] for rows in zip(*drawn, strict=True)]
        whole = [[s for s in scores if s is not None] for scores in table if None not in scores]
        if shares := variance_shares(whole, seed=task.seed):
            found[metric.id] = shares
    return found


def replicates_json(variances: Mapping[str, VarianceShares]) -> dict[str, Any]:
    """Returns the number of draws and the components by metric, as JSON values."""
    number = next(shares.replicates for shares in variances.values())
    return {"n": number, "metrics": {name: shares.to_json() for name, shares in variances.items()}}
