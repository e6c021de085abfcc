"""The verdict: baseline against winner on the same questions, as intervals and paired differences.

The first objective is the primary metric: the recipe named it before anything was measured. The verdict uses
it alone, so its p and its interval are not adjusted. Among the other metrics some difference appears by
chance. Their p-values are therefore adjusted and their intervals simultaneous, over the family of all
reported metrics, as in `ragc eval A B` (`ragc.metrics.stats.resample`). Where a front is tested, its members
are one family too, and the verdict uses `p_front` (`ragc.optimizers.compile.front`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

from ragc.errors import UsageError
from ragc.metrics import Metric, get
from ragc.metrics.base import Objective, is_judge
from ragc.metrics.short_answer import acc, f1
from ragc.metrics.stats.groups import groups_json
from ragc.metrics.stats.resample import (
    Contrast,
    Interval,
    Paired,
    Verdict,
    adjust_family,
    after_looks,
    holm,
    paired,
    pooled_paired,
    power_note,
    verdict,
    widen,
)
from ragc.store.used_questions import TestUse
from ragc.task.answering import Row, groups_of
from ragc.task.base import Task, columns_of

NOT_MEASURED = "not measured"
_NOT_SHOWN: Verdict = "not shown to be better"

FOR_TRYING = "none, for trying only"
"""The verdict on questions of a written set of which too few are good (`ragc new`)."""


def trying_note(rows: Sequence[Row]) -> str:
    """Returns why no verdict rests on the questions of `rows`; "" where one may."""
    n = sum(row.question.extra.get("for_trying") is True for row in rows)
    if not n:
        return ""
    return (
        f"{n} of {len(rows)} test questions are from a set of which too few are good for a verdict; review "
        "them with `ragc questions review`, or have a larger teacher write others."
    )


CROSS_VALIDATED = "by cross-validation"
"""The mark of a verdict on programs that were chosen without the questions that they answered."""


def on_procedure(verdict: str, note: str, folds: int) -> tuple[str, str]:
    """Returns the verdict and its note for a cross-validation in `folds`, which tests the procedure."""
    sentence = (
        "The verdict is on programs chosen this way: each question was answered by one that was chosen "
        f"without its fold, one of {folds}, while all questions chose the compiled program."
    )
    return f"{verdict} ({CROSS_VALIDATED})", f"{sentence} {note}".strip()


def intervals_to_json(scores: Mapping[str, Interval]) -> dict[str, Any]:
    """Returns `{metric: {mean, ci, n}}` as JSON values, with the number of groups if there are any."""
    return {name: interval.to_json() for name, interval in scores.items()}


def compare(
    task: Task, before: Sequence[Row], after: Sequence[Row]
) -> tuple[dict[str, dict[str, Any]], str, str]:
    """Returns the paired difference of each metric, the verdict on the first objective, and a note on its
    power.

    `p` and `ci` are those of a metric alone. Metrics that are not primary also have `p_adjusted` and
    `ci_simultaneous`.
    """
    results = {metric: difference_of(metric, before, after, task.seed) for metric in task.metrics}
    alone = {metric: result for metric, result in results.items() if result is not None}
    primary = task.objectives[0]
    family = _adjust(alone, before, after, task.seed)
    differences: dict[str, dict[str, Any]] = {}
    for (metric, result), (adjusted, low, high) in zip(alone.items(), family, strict=True):
        differences[metric.id] = {
            "mean": result.diff,
            "ci": [result.low, result.high],
            "p": result.p,
            "n": result.n,
            **groups_json(result.groups),
        }
        if metric.id != primary.metric.id:
            differences[metric.id] |= {"p_adjusted": adjusted, "ci_simultaneous": [low, high]}
    decisive = next((one for metric, one in alone.items() if metric.id == primary.metric.id), None)
    if decisive is None:
        return differences, NOT_MEASURED, ""
    sides = {"better": "worse", "worse": "better"} if primary.sign < 0 else {}
    outcome = verdict(decisive)
    return differences, sides.get(outcome, outcome), power_note(decisive)


def adjust_for_looks(
    look: TestUse | None, differences: Mapping[str, Mapping[str, Any]], verdict: str, primary: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns the `differences` and the verdict on the metric `primary`, adjusted for the looks before
    `look`.

    Where there were any, each difference also has `p_looks` and `ci_looks`. What follows the verdict, such as
    how many questions were seen before, stays.
    """
    factor = look.adjustment if look else 1
    out = {name: dict(value) for name, value in differences.items()}
    if factor == 1:
        return out, verdict
    for value in out.values():
        low, high = _family_ends(value)
        p, *ends = after_looks(factor, value["mean"], _family_p(value), (low, high))
        value |= {"p_looks": p, "ci_looks": ends}
    decisive = out.get(primary)
    return out, verdict_at(verdict, decisive["p_looks"]) if decisive else verdict


def verdict_at(verdict: str, p: float) -> str:
    """Returns a `verdict` whose p is `p` after an adjustment; what follows it, in brackets, stays."""
    plain = next((one for one in ("better", "worse") if verdict.partition(" (")[0] == one), "")
    return f"{_NOT_SHOWN}{verdict[len(plain) :]}" if plain and p >= 0.05 else verdict


def after_looks_json(
    look: TestUse | None, differences: Mapping[str, Mapping[str, Any]], verdict: str, primary: str
) -> dict[str, Any]:
    """Returns the entry of `run.json` with what `adjust_for_looks` returns; {} where it changes nothing."""
    adjusted, outcome = adjust_for_looks(look, differences, verdict, primary)
    if adjusted == {name: dict(value) for name, value in differences.items()}:
        return {}
    return {"after_looks": {"verdict": outcome, "differences": adjusted}}


def judge_of(provenance: Mapping[str, Any], metric: str) -> str:
    """Returns the judge on whose word the scores of `metric` rest, by `provenance`; "" for none."""
    backends = provenance.get("backends")
    if not isinstance(backends, dict):
        return ""
    try:
        backend = str(backends.get(get(metric).reads, ""))
    except UsageError:  # a metric of the recipe's own
        return ""
    return backend if is_judge(backend) else ""


def shown_p(difference: Mapping[str, Any]) -> float:
    """Returns the p of a difference that people are shown: adjusted for metrics, a front and looks, where
    any is.
    """
    return float(difference.get("p_looks", _family_p(difference)))


def _family_p(difference: Mapping[str, Any]) -> float:
    return float(difference.get("p_adjusted", difference.get("p_front", difference["p"])))


def _family_ends(difference: Mapping[str, Any]) -> Sequence[float]:
    name = next(name for name in ("ci_simultaneous", "ci_front", "ci") if name in difference)
    ends: Sequence[float] = difference[name]
    return ends


def shown_ends(difference: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the interval of a difference that people are shown, which agrees with `shown_p`."""
    low, high = difference.get("ci_looks", _family_ends(difference))
    return low, high


def _adjust(
    alone: Mapping[Metric, Paired], before: Sequence[Row], after: Sequence[Row], seed: int
) -> list[tuple[float, float, float]]:
    """Returns the adjusted p and the simultaneous interval of each metric, over all of them."""
    return adjusted([(metric, result, after) for metric, result in alone.items()], before, seed)


def adjusted(
    contrasts: Sequence[tuple[Metric, Paired, Sequence[Row]]], before: Sequence[Row], seed: int
) -> list[tuple[float, float, float]]:
    """Returns the adjusted p and the simultaneous interval of each contrast of rows with those `before`.

    All are one family. A figure that is no mean over questions cannot be resampled with the others; with one,
    Holm's method adjusts all.
    """
    if any(metric.combine for metric, _, _ in contrasts):
        single = holm([result.p for _, result, _ in contrasts])
        critical = NormalDist().inv_cdf(1 - 0.025 / len(contrasts)) / NormalDist().inv_cdf(0.975)
        return [(p, *widen(result, p, critical)) for p, (_, result, _) in zip(single, contrasts, strict=True)]

    def column(rows: Sequence[Row], metric: Metric) -> dict[str, float | None]:
        return {f"{at:09d}": row.scores[metric.id] for at, row in enumerate(rows)}

    columns = [(m, column(before, m), column(after, m)) for m, _, after in contrasts]
    family = [Contrast(a, b, m.bounds_of((*a.values(), *b.values()))) for m, a, b in columns]
    groups = {f"{at:09d}": label for at, label in enumerate(groups_of(before))}
    judged = adjust_family(family, seed=seed, groups=groups)
    return [(one.adjusted, one.low, one.high) for one in judged if one is not None]


def choose_example(
    objective: Objective, before: Sequence[Row], after: Sequence[Row]
) -> tuple[Row, Row] | None:
    """Returns one question, answered `before` and `after`; both have the same questions in the same order.

    It is the first by id that scores higher after, and whose answer before has no word of a gold answer and
    does not contain one: it was wrong in content, not in form. If there is none, the first that has an
    answer.
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


def difference_of(metric: Metric, before: Sequence[Row], after: Sequence[Row], seed: int) -> Paired | None:
    """Returns the paired difference of one metric; None when no question is scored on both sides."""
    pairs = [(a.scores[metric.id], b.scores[metric.id]) for a, b in zip(before, after, strict=True)]
    complete_pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not complete_pairs:
        return None
    if metric.combine is not None:
        first, second = (columns_of(metric, [row.scores for row in rows]) for rows in (before, after))
        return pooled_paired(first, second, metric.combine, seed=seed, groups=groups_of(before))
    old, new = zip(*complete_pairs, strict=True)
    scored = [row for row, (a, b) in zip(before, pairs, strict=True) if a is not None and b is not None]
    return paired(old, new, seed=seed, bounds=metric.bounds_of((*old, *new)), groups=groups_of(scored))
