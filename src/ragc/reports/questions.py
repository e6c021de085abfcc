"""Reads files of rows into runs, and puts runs beside each other: scores, differences, and a line a question.

Nothing in a row is run, and no module that a metric's name refers to is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc import metrics
from ragc.errors import RagcError, UsageError
from ragc.metrics import Metric
from ragc.metrics.reports import runs as run_files
from ragc.metrics.reports.runs import Run
from ragc.metrics.stats.intervals import labels_where, mean_ci
from ragc.metrics.stats.multiple import Contrast, judge
from ragc.reports.events import read_events
from ragc.reports.failures import GROUPS, deciding_metric, group_of
from ragc.reports.report import Answer, Change, Changes, Cost, Difference, GroupCount, QuestionLine, Score
from ragc.reports.values import entries, mapping, number, text

LARGEST = 2**30
"""Maximum size in bytes of a file of rows that becomes part of a page."""

SEED = 0
"""The seed of the resampling, as in `ragc eval A B`."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """A run: its scores by question, and the whole rows by question id."""

    run: Run
    rows: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The name of the run in the report."""
        return self.run.name


def read_rows(path: Path, name: str) -> RunRows:
    """The run in the JSONL file `path`. Raises DataError with every problem, as `ragc eval A B` does."""
    run, rows = run_files.read_whole(path, name=name, largest=LARGEST)
    return RunRows(run, {row["id"]: row for row in rows})


def rows_of(name: str, values: Iterable[Any], where: str = "") -> RunRows:
    """The run made of JSON `values`, one a row. Raises DataError, which names `where`."""
    rows = list(values)
    run = run_files.of_rows(where or name, rows)
    return RunRows(Run(name, run.answered), {row["id"]: row for row in rows})


def distinct_names(names: Sequence[str]) -> list[str]:
    """`names`, numbered where they repeat."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return out


def check_same_data(runs: Sequence[RunRows]) -> None:
    """Raises UsageError when two of `runs` have another question or other gold answers under one id."""
    known: dict[str, tuple[str, tuple[str, frozenset[str]]]] = {}
    for one in runs:
        for key, row in one.run.answered.items():
            about = (row.question, frozenset(row.answers))
            name, before = known.setdefault(key, (one.name, about))
            if before != about:
                raise UsageError(
                    f"{name} and {one.name} are not over the same data: the id {key[:80]!r} has another "
                    "question or other gold answers in each; report on runs of one file of questions."
                )


def metric_of(name: str, values: Iterable[float]) -> tuple[bool, tuple[float, float] | None]:
    """Whether more is better in the metric `name`, and its bounds, widened to `values` that lie outside."""
    try:
        known: Metric | None = metrics.get(name)
    except RagcError:  # a metric of another version, or of a program of somebody's own
        known = None
    seen = list(values) or [0.0]
    least, greatest = min(seen), max(seen)
    bounds = known.bounds if known else (0.0, 1.0)
    if bounds is None:
        return known is None or known.higher_is_better, None if least >= 0 else (least, greatest)
    return known is None or known.higher_is_better, (min(bounds[0], least), max(bounds[1], greatest))


def score_of(
    run: str,
    split: str,
    metric: str,
    values: Sequence[float],
    seed: int = SEED,
    groups: Sequence[str] | None = None,
) -> Score:
    """The mean of `metric` over `values`, with its interval; `groups` are those of `mean_ci`."""
    _, bounds = metric_of(metric, values)
    interval = mean_ci(values, seed=seed, bounds=bounds, groups=groups)
    return Score(run, split, metric, interval.mean, interval.low, interval.high, interval.n)


def scores_of(runs: Sequence[RunRows], split: str) -> Iterator[Score]:
    """The scores of every run by metric, the metrics in the order in which they first appear."""
    for metric in dict.fromkeys(name for one in runs for name in one.run.metrics):
        for one in runs:
            scores = list(one.run.scores(metric).values())
            values = [score for score in scores if score is not None]
            if values:
                labels = labels_where(list(one.run.groups.values()), scores)
                yield score_of(one.name, split, metric, values, one.run.seed, labels)


def differences_of(before: Run, after: Run, split: str) -> tuple[Difference, ...]:
    """The differences between two runs in each metric of both; p and intervals are adjusted for all."""
    theirs = set(after.metrics)
    names = [name for name in before.metrics if name in theirs]
    sides = [(before.scores(name), after.scores(name)) for name in names]
    abouts = [
        metric_of(name, (score for side in pair for score in side.values() if score is not None))
        for name, pair in zip(names, sides, strict=True)
    ]
    contrasts = [Contrast(*pair, bounds) for pair, (_, bounds) in zip(sides, abouts, strict=True)]
    groups = {**after.groups, **{key: label for key, label in before.groups.items() if label}}
    results = judge(contrasts, seed=SEED, groups=groups) if contrasts else ()
    return tuple(
        Difference(
            metric=name,
            split=split,
            before=before.name,
            after=after.name,
            mean=one.result.diff,
            low=one.low,
            high=one.high,
            p=one.adjusted,
            n=one.result.n,
            adjusted=len(names) > 1,
            decides=name == names[0],
            verdict=one.verdict(higher_is_better=about[0]),
        )
        for name, one, about in zip(names, results, abouts, strict=True)
        if one is not None
    )


def costs_of(runs: Sequence[RunRows]) -> tuple[Cost, ...]:
    """The sums of the counters of each run."""
    out = []
    for one in runs:
        total: dict[str, float] = {}
        for row in one.run.answered.values():
            for name, value in row.counters.items():
                if (amount := number(value)) is not None:
                    total[name] = total.get(name, 0) + amount
        out.append(Cost(one.name, {name: round(amount, 6) for name, amount in total.items()}))
    return tuple(out)


def question_lines(runs: Sequence[RunRows], metric: str) -> Iterator[QuestionLine]:
    """A line for every question of any run, in the order in which they first appear."""
    better = metric_of(metric, ())[0]
    deciding = metric if metric and any(metric in one.run.metrics for one in runs) else ""
    group_by = deciding or deciding_metric(row for one in runs for row in one.rows.values())
    for key in dict.fromkeys(key for one in runs for key in one.rows):
        answers = {one.name: _answer(one, key, group_by) for one in runs if key in one.rows}
        first = next(one for one in runs if key in one.rows)
        row, raw = first.run.answered[key], first.rows[key]
        golds = tuple(text(id) for id in entries(raw.get("gold_ids")))
        change = _change(runs, key, deciding, more_is_better=better) if len(runs) > 1 else None
        yield QuestionLine(key, row.question, row.answers, golds, answers, change)


def changes_of(runs: Sequence[RunRows], metric: str, lines: Sequence[QuestionLine]) -> tuple[Changes, ...]:
    """How many of `lines` were gained and lost; () unless there are two runs and a metric to compare."""
    counts = Counter(line.change for line in lines)
    if len(runs) < 2 or not any(metric in one.run.metrics for one in runs):
        return ()
    ends = (runs[0].name, runs[-1].name)
    kinds: tuple[Change, ...] = ("gained", "lost", "unchanged", "only once")
    return (Changes(metric, *ends, *(counts[kind] for kind in kinds)),)


def group_counts(runs: Sequence[str], lines: Sequence[QuestionLine]) -> Iterator[GroupCount]:
    """How many questions of each run belong to each group, in the order of the groups."""
    answers = [(run, line.runs[run].group) for run in runs for line in lines if run in line.runs]
    for group in GROUPS:
        if any(id == group.id for _, id in answers):
            for run in runs:
                n = answers.count((run, group.id))
                yield GroupCount(run, group.id, group.title, group.about, n)


def _answer(one: RunRows, key: str, metric: str) -> Answer:
    row, raw = one.run.answered[key], one.rows[key]
    answered = "prediction" in raw
    group = group_of(raw, metric) if answered else None
    return Answer(
        scores={name: number(score) for name, score in row.scores.items()},
        prediction=row.prediction,
        answered=answered,
        failure=row.failure,
        group=group.id if group else "",
        group_title=group.title if group else "",
        passages=tuple(text(id) for id in entries(raw.get("passages"))),
        counters={name: value for name, value in mapping(raw.get("counters")).items() if number(value)},
        trace=tuple(read_events(raw.get("trace"))),
    )


def _change(runs: Sequence[RunRows], key: str, metric: str, *, more_is_better: bool) -> Change:
    """How the score of a question changed from the first run to the last."""
    sides = [one.run.answered.get(key) for one in (runs[0], runs[-1])]
    before, after = (side.scores.get(metric) if side else None for side in sides)
    if before is None or after is None:
        return "unchanged" if all(sides) else "only once"
    if before == after:
        return "unchanged"
    return "gained" if (after > before) == more_is_better else "lost"
