"""Proof: baseline against winner on the same questions, as intervals, differences and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.metrics.significance import Interval, paired, power_note, summarise, verdict
from ragc.optimizers.evaluation import Row
from ragc.optimizers.task import Task
from ragc.optimizers.trials import Scores

NOT_MEASURED = "not measured"


def intervals(scores: Mapping[str, Interval]) -> dict[str, Any]:
    """`{metric: {mean, ci, n}}` as JSON values."""
    return {name: {"mean": i.mean, "ci": [i.low, i.high], "n": i.n} for name, i in scores.items()}


def summaries(task: Task, scores: Sequence[Scores]) -> dict[str, Interval]:
    """The interval of each metric that applies to any of the questions; empty for no questions."""
    if not scores:
        return {}
    made = {m.id: summarise(m, [s[m.id] for s in scores], seed=task.seed).interval for m in task.metrics}
    return {name: interval for name, interval in made.items() if interval is not None}


def compare(
    task: Task, before: Sequence[Row], after: Sequence[Row]
) -> tuple[dict[str, dict[str, Any]], str, str]:
    """Paired differences a metric, and the verdict on the first objective."""
    differences: dict[str, dict[str, Any]] = {}
    decided, note = NOT_MEASURED, ""
    for metric in task.metrics:
        pairs = [(a.scores[metric.id], b.scores[metric.id]) for a, b in zip(before, after, strict=True)]
        kept = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not kept:
            continue
        old, new = zip(*kept, strict=True)
        result = paired(old, new, seed=task.seed, bounds=metric.bounds)
        differences[metric.id] = {
            "mean": result.diff,
            "ci": [result.low, result.high],
            "p": result.p,
            "n": result.n,
        }
        if metric.id == task.objectives[0].metric.id:
            sides = {"better": "worse", "worse": "better"} if task.objectives[0].sign < 0 else {}
            decided, note = sides.get(found := verdict(result), found), power_note(result)
    return differences, decided, note
