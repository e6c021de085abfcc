"""Compares runs: scores, differences, and a line for every question.

Nothing in a row is run, and no module that a metric's name refers to is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.labels import known_metric
from ragc.metrics.runs import ScoredRun
from ragc.metrics.stats.groups import labels_where
from ragc.metrics.stats.resample import Contrast, adjust_family, mean_ci
from ragc.reports.events import read_events
from ragc.reports.failures import GROUPS, deciding_metric
from ragc.reports.report import (
    Change,
    ChangeCounts,
    CostRow,
    Difference,
    GroupCount,
    QuestionAnswer,
    QuestionLine,
    Score,
)
from ragc.reports.row_files import RunRows
from ragc.reports.values import entries, number, text, totals

MAX_METRICS = 40
"""Metrics of which a report gives scores, intervals and tests; rows with more have their first ones there."""

SEED = 0
"""The seed of the resampling, as in `ragc eval A B`."""

MAX_DETAILED = 10_000
"""Questions whose traces become part of a report; of others it has scores, texts and groups."""

_GROUPS = {group.id: group for group in GROUPS}


def distinct_names(names: Sequence[str]) -> list[str]:
    """Returns `names`, with numbers for repeated ones."""
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
    """Returns whether more is better in the metric `name`, and its bounds, widened to `values` that lie
    outside.
    """
    known = _known(name)
    seen = list(values) or [0.0]
    least, greatest = min(seen), max(seen)
    bounds = known.bounds_of(seen) if known else (0.0, 1.0)
    better = known is None or known.higher_is_better
    if bounds is None:
        return better, None if least >= 0 else (least, greatest)
    return better, (min(bounds[0], least), max(bounds[1], greatest))


_known = lru_cache(maxsize=1024)(known_metric)


def shown_metrics(runs: Sequence[RunRows], first: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the metrics of `runs` in the order in which they first appear, those in `first` before all
    others.

    At most `MAX_METRICS` of them.
    """
    known = dict.fromkeys(name for one in runs for name in one.run.metrics)
    ordered = dict.fromkeys([*(name for name in first if name in known), *known])
    return tuple(ordered)[:MAX_METRICS]


def scores_of(runs: Sequence[RunRows], split: str, names: Sequence[str]) -> Iterator[Score]:
    """Yields the scores of every run by the metrics `names`."""
    for metric in names:
        for one in runs:
            scores = list(one.run.scores(metric).values())
            values = [score for score in scores if score is not None]
            if values:
                labels = labels_where(list(one.run.groups.values()), scores)
                bounds = metric_of(metric, values)[1]
                mean = mean_ci(values, seed=one.run.seed, bounds=bounds, groups=labels)
                beside = one.agreement.metrics.get(metric) if one.agreement else None
                agreement = beside.to_json() if beside else {}
                yield Score(one.name, split, metric, mean.mean, mean.low, mean.high, mean.n, agreement)


def differences_of(
    before: ScoredRun, after: ScoredRun, split: str, names: Sequence[str]
) -> tuple[Difference, ...]:
    """Returns the differences between two runs in each of the metrics `names` that both have.

    p and intervals are adjusted for all of these.
    """
    shared = set(before.metrics) & set(after.metrics)
    names = [name for name in names if name in shared]
    sides = [(before.scores(name), after.scores(name)) for name in names]
    abouts = [
        metric_of(name, (score for side in pair for score in side.values() if score is not None))
        for name, pair in zip(names, sides, strict=True)
    ]
    contrasts = [Contrast(*pair, bounds) for pair, (_, bounds) in zip(sides, abouts, strict=True)]
    groups = {**after.groups, **{key: label for key, label in before.groups.items() if label}}
    results = adjust_family(contrasts, seed=SEED, groups=groups) if contrasts else ()
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


def costs_of(runs: Sequence[RunRows]) -> tuple[CostRow, ...]:
    """Returns the sums of the counters of each run."""
    sums = ((one.name, totals(row.counters for row in one.run.answered.values())) for one in runs)
    return tuple(
        CostRow(name, {kind: round(sum_, 6) for kind, sum_ in total.items()}) for name, total in sums
    )


_NO_ROW: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class QuestionTable:
    """The questions of all runs, in the order in which they first appear.

    Whole rows are read while iterating. Questions beyond `MAX_DETAILED` are not read again, so they have no
    traces.

    `groups` has for each run the group of outcomes by question id, `changes` the change of each question from
    the first run to the last, None for a single run.
    """

    runs: tuple[RunRows, ...] = ()
    ids: tuple[str, ...] = ()
    groups: tuple[Mapping[str, str], ...] = ()
    changes: tuple[Change | None, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[QuestionLine]:
        """Yields the questions. Raises DataError if a file of rows was changed meanwhile."""
        return self.select(range(len(self.ids)))

    def select(self, places: Iterable[int]) -> Iterator[QuestionLine]:
        """Yields the lines of the questions at `places`."""
        with ExitStack() as stack:
            sources = [stack.enter_context(one.source.opened()) for one in self.runs]
            for index in places:
                key = self.ids[index]
                whole = index < MAX_DETAILED
                held = [
                    (one, groups, get(key) if whole else _NO_ROW)
                    for one, groups, get in zip(self.runs, self.groups, sources, strict=True)
                    if key in one.run.answered
                ]
                answers = {one.name: _answer(one, key, groups, raw) for one, groups, raw in held}
                first, _, raw = held[0]
                row = first.run.answered[key]
                golds = tuple(text(id) for id in entries(raw.get("gold_ids")))
                yield QuestionLine(key, row.question, row.answers, golds, answers, self.changes[index])


def questions_of(runs: Sequence[RunRows], metric: str) -> QuestionTable:
    """Returns the questions of `runs`, grouped by `metric` where the runs have it."""
    better = metric_of(metric, ())[0]
    deciding = metric if metric and any(metric in one.run.metrics for one in runs) else ""
    group_by = deciding or deciding_metric([{"scores": dict.fromkeys(one.run.metrics)} for one in runs])
    ids = tuple(dict.fromkeys(key for one in runs for key in one.run.answered))
    several = len(runs) > 1
    changes: tuple[Change | None, ...] = tuple(
        _change(runs, key, deciding, more_is_better=better) if several else None for key in ids
    )
    return QuestionTable(tuple(runs), ids, tuple(one.grouped_by(group_by) for one in runs), changes)


def changes_of(runs: Sequence[RunRows], metric: str, questions: QuestionTable) -> tuple[ChangeCounts, ...]:
    """Returns how many questions were gained and lost; () without two runs and a metric to compare."""
    counts = Counter(questions.changes)
    if len(runs) < 2 or not any(metric in one.run.metrics for one in runs):
        return ()
    ends = (runs[0].name, runs[-1].name)
    kinds: tuple[Change, ...] = ("gained", "lost", "unchanged", "only once")
    return (ChangeCounts(metric, *ends, *(counts[kind] for kind in kinds)),)


def group_counts(questions: QuestionTable) -> Iterator[GroupCount]:
    """Yields how many questions of each run belong to each group, in the order of the groups."""
    counts = [Counter(groups.values()) for groups in questions.groups]
    for group in GROUPS:
        if any(count[group.id] for count in counts):
            for one, count in zip(questions.runs, counts, strict=True):
                yield GroupCount(one.name, group.id, group.title, group.about, count[group.id])


def _answer(one: RunRows, key: str, groups: Mapping[str, str], raw: Mapping[str, Any]) -> QuestionAnswer:
    row = one.run.answered[key]
    group = _GROUPS.get(groups.get(key, ""))
    return QuestionAnswer(
        scores=row.scores,
        prediction=row.prediction,
        answered=key in one.answered,
        failure=row.failure,
        group=group.id if group else "",
        group_title=group.title if group else "",
        passages=tuple(text(id) for id in entries(raw.get("passages"))),
        counters={name: value for name, value in row.counters.items() if number(value)},
        trace=tuple(read_events(raw.get("trace"))),
    )


def _change(runs: Sequence[RunRows], key: str, metric: str, *, more_is_better: bool) -> Change:
    """Returns how the score of a question changed from the first run to the last."""
    sides = [one.run.answered.get(key) for one in (runs[0], runs[-1])]
    before, after = (side.scores.get(metric) if side else None for side in sides)
    if before is None or after is None:
        return "unchanged" if all(sides) else "only once"
    if before == after:
        return "unchanged"
    return "gained" if (after > before) == more_is_better else "lost"
