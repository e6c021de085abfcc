"""The verdict: baseline against winner on the same questions, as intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.metrics import Metric
from ragc.metrics.base import Objective
from ragc.metrics.short_answer import acc, f1
from ragc.metrics.stats.intervals import Interval, Paired, paired, power_note, verdict
from ragc.metrics.stats.ratios import pooled_paired
from ragc.optimizers.answering import Row
from ragc.optimizers.task import Task, columns_of

NOT_MEASURED = "not measured"


def intervals_to_json(scores: Mapping[str, Interval]) -> dict[str, Any]:
    """`{metric: {mean, ci, n}}` as JSON values."""
    return {name: {"mean": i.mean, "ci": [i.low, i.high], "n": i.n} for name, i in scores.items()}


def compare(
    task: Task, before: Sequence[Row], after: Sequence[Row]
) -> tuple[dict[str, dict[str, Any]], str, str]:
    """The paired difference of each metric, the verdict on the first objective, and a note on its power."""
    differences: dict[str, dict[str, Any]] = {}
    decided, note = NOT_MEASURED, ""
    for metric in task.metrics:
        result = _difference(metric, before, after, task.seed)
        if result is None:
            continue
        differences[metric.id] = {
            "mean": result.diff,
            "ci": [result.low, result.high],
            "p": result.p,
            "n": result.n,
        }
        if metric.id == task.objectives[0].metric.id:
            sides = {"better": "worse", "worse": "better"} if task.objectives[0].sign < 0 else {}
            decided, note = sides.get(outcome := verdict(result), outcome), power_note(result)
    return differences, decided, note


def choose_example(
    objective: Objective, before: Sequence[Row], after: Sequence[Row]
) -> tuple[Row, Row] | None:
    """One question, answered `before` and `after`; both have the same questions in the same order.

    The first by id that scores higher after, and whose answer before has no word of a gold answer and does
    not contain one: it was wrong in content, not in form. If there is none, the first that has an answer.
    """
    pairs = sorted(zip(before, after, strict=True), key=lambda pair: pair[0].question.id)
    answered = [pair for pair in pairs if pair[1].prediction]
    corrected = (
        (old, new)
        for old, new in answered
        if objective.of(new.scores) > objective.of(old.scores) and _is_wrong_in_content(old)
    )
    return next(corrected, next(iter(answered), None))


def _is_wrong_in_content(row: Row) -> bool:
    golds = row.question.answers
    return bool(golds) and not f1(row.prediction, golds) and not acc(row.prediction, golds)


def _difference(metric: Metric, before: Sequence[Row], after: Sequence[Row], seed: int) -> Paired | None:
    """The paired difference of one metric; None when no question is scored on both sides."""
    pairs = [(a.scores[metric.id], b.scores[metric.id]) for a, b in zip(before, after, strict=True)]
    complete_pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not complete_pairs:
        return None
    if metric.combine is not None:
        first, second = (columns_of(metric, [row.scores for row in rows]) for rows in (before, after))
        return pooled_paired(first, second, metric.combine, seed=seed)
    old, new = zip(*complete_pairs, strict=True)
    return paired(old, new, seed=seed, bounds=metric.bounds)
