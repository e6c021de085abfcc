"""Comparing two runs, question by question: `ragc eval A B`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragc.errors import UnknownName, UsageError
from ragc.metrics import Metric, get
from ragc.metrics.comparison import decided
from ragc.metrics.contrasts import Contrast, Judged, Method, judge, match
from ragc.metrics.run_report import Change, MetricRow, RunComparison
from ragc.metrics.runs import Answered, Run
from ragc.metrics.significance import mean_ci


def compare(
    a: Run,
    b: Run,
    *,
    seed: int,
    by: str = "",
    changed: int = 10,
    method: Method = "max-t",
    confidence: float = 0.95,
) -> RunComparison:
    """Run `b` against run `a` on the questions that both answered.

    Metrics are those that both runs scored, in a's order; p is adjusted over all of them. `by` is the
    metric whose greatest changes are listed, at most `changed` of them, by default the first. Raises
    UsageError when the runs share no question or no metric, when a shared id has another question or
    other gold answers, when a metric was judged by different backends, and for an unknown metric.
    """
    _same_data(a, b)
    theirs = set(b.metrics)
    names = [name for name in a.metrics if name in theirs]
    if not names:
        raise UsageError(f"{a.name} and {b.name} share no metric; score both with the same metrics.")
    if (by := by or names[0]) not in names:
        raise UnknownName("metric of both runs", by, names)
    skipped = tuple(name for name in (*a.metrics, *b.metrics) if name not in names)
    a, b = _named_apart(a, b)
    metrics = [get(name) for name in names]
    contrasts = [Contrast(a.scores(m.id), b.scores(m.id), m.bounds) for m in metrics]
    found = judge(contrasts, seed=seed, method=method, confidence=confidence)
    rows = tuple(
        _row(metric, contrast, one, _backend(a, b, metric), seed, confidence)
        for metric, contrast, one in zip(metrics, contrasts, found, strict=True)
    )
    changes = _changes(a, b, by)
    rose = sum(change.after > change.before for change in changes)
    return RunComparison(
        a, b, rows, method, by, rose, len(changes) - rose, changes[: max(0, changed)], skipped
    )


def _same_data(a: Run, b: Run) -> None:
    shared = [key for key in a.answered if key in b.answered]
    if not shared:
        raise UsageError(f"{a.name} and {b.name} share no question id; score both on the same split.")
    other = [key for key in shared if _asked(a.answered[key]) != _asked(b.answered[key])]
    if other:
        raise UsageError(
            f"{a.name} and {b.name} are not over the same data: {len(other)} of {len(shared)} shared ids, "
            f"such as {other[0]!r}, have another question or other gold answers; score both on one file."
        )


def _asked(row: Answered) -> tuple[str, frozenset[str]]:
    return row.question, frozenset(row.answers)


def _named_apart(a: Run, b: Run) -> tuple[Run, Run]:
    if a.name != b.name:
        return a, b
    return Run(f"{a.name} (A)", a.answered), Run(f"{b.name} (B)", b.answered)


def _backend(a: Run, b: Run, metric: Metric) -> str:
    first, second = (run.backend(metric.id, metric.reads) for run in (a, b))
    if first != second:
        raise UsageError(
            f"{metric.id!r} was judged by {first or 'nothing'!r} in {a.name} and by {second or 'nothing'!r} "
            f"in {b.name}, which cannot be compared; score both with one backend."
        )
    return first


def _row(
    metric: Metric, contrast: Contrast, found: Judged | None, backend: str, seed: int, confidence: float
) -> MetricRow:
    ids, matching = match(contrast.a, contrast.b)
    sides = [
        mean_ci(
            [score for key in ids if (score := side[key]) is not None],
            confidence=confidence,
            seed=seed,
            bounds=metric.bounds,
        )
        if ids
        else None
        for side in (contrast.a, contrast.b)
    ]
    verdict = decided(found, metric.higher_is_better)
    return MetricRow(metric.id, backend, sides[0], sides[1], found, matching, verdict)


def _changes(a: Run, b: Run, by: str) -> tuple[Change, ...]:
    before, after = a.scores(by), b.scores(by)
    ids: Sequence[str] = match(before, after)[0]
    pairs = ((key, _number(before, key), _number(after, key)) for key in ids)
    found = [Change(a.answered[key], b.answered[key], old, new) for key, old, new in pairs if old != new]
    return tuple(sorted(found, key=lambda change: (-abs(change.after - change.before), change.a.id)))


def _number(scores: Mapping[str, float | None], key: str) -> float:
    value = scores[key]
    return 0.0 if value is None else value
