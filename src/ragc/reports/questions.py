"""Compares runs: their scores, the differences of two of them, and a line for every question.

Nothing in a row is run, and no module that a metric's name refers to is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragc.errors import UsageError
from ragc.metrics import runs as run_files
from ragc.metrics.labels import LabelAgreement, agreement_beside, known_metric
from ragc.metrics.runs import ScoredRun
from ragc.metrics.stats.groups import labels_where
from ragc.metrics.stats.resample import Contrast, Interval, adjust_family, mean_ci, pooled_ci
from ragc.reports.failures import GROUPS, deciding_metric, group_of, texts
from ragc.reports.report import Change, Difference, QuestionLine, is_number

SEED = 0
"""The seed of the resampling, as in `ragc eval A B`."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its scores, its whole rows by question id, and the agreement of its judged metrics with the
    labels of a person; None without any.
    """

    scored: ScoredRun
    rows: Mapping[str, Mapping[str, Any]]
    agreement: LabelAgreement | None = None

    @property
    def name(self) -> str:
        """The name of the run in the report."""
        return self.scored.name

    @classmethod
    def read(cls, path: Path, name: str) -> Run:
        """Returns the run in the file of rows `path`. Raises DataError with every problem."""
        scored, rows = run_files.read_whole(path, name=name)
        return cls(scored, {row["id"]: row for row in rows}, agreement_beside(path, scored))

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], name: str, where: str) -> Run:
        """Returns the run of `rows`, which come from the file `where`. Raises DataError."""
        scored = run_files.of_rows(where, rows)
        return cls(ScoredRun(name, scored.answered), {row["id"]: row for row in rows})


def distinct_names(names: Sequence[str]) -> list[str]:
    """Returns `names`, with numbers for repeated ones."""
    before = [names[:index].count(name) for index, name in enumerate(names)]
    return [f"{name} ({n + 1})" if n else name for name, n in zip(names, before, strict=True)]


def check_same_data(runs: Sequence[Run]) -> None:
    """Raises UsageError when two of `runs` have another question or other gold answers under one id."""
    first: dict[str, tuple[str, tuple[str, frozenset[str]]]] = {}
    for run in runs:
        for key, row in run.scored.answered.items():
            content = row.question, frozenset(row.answers)
            name, before = first.setdefault(key, (run.name, content))
            if before != content:
                raise UsageError(
                    f"{name} and {run.name} are not over the same data: the id {key[:80]!r} has another "
                    "question or other gold answers in each; report on runs of one file of questions."
                )


_metric = lru_cache(maxsize=1024)(known_metric)


def metric_of(name: str, values: Iterable[float] = ()) -> tuple[bool, tuple[float, float] | None]:
    """Returns whether more is better in the metric `name`, and its bounds, widened to hold `values`."""
    metric, values = _metric(name), list(values) or [0.0]
    bounds = metric.bounds_of(values) if metric else (0.0, 1.0)
    if bounds is None and min(values) < 0:
        bounds = min(values), max(values)
    widened = (min(bounds[0], *values), max(bounds[1], *values)) if bounds else None
    return metric is None or metric.higher_is_better, widened


def metrics_of(runs: Sequence[Run], first: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the metrics of `runs` as they first appear, those in `first` before the others."""
    names = dict.fromkeys(name for run in runs for name in run.scored.metrics)
    return tuple(dict.fromkeys([*(name for name in first if name in names), *names]))


def intervals(run: ScoredRun) -> dict[str, Interval]:
    """Returns the mean of each metric, with its interval, without metrics that apply to no question.

    A metric that is made of several means is pooled from these, where the run has them.
    """
    scores = {name: list(run.scores(name).values()) for name in run.metrics}
    labels = list(run.groups.values())
    means = {}
    for name, column in scores.items():
        values, metric = [score for score in column if score is not None], _metric(name)
        if not values:
            continue
        bounds, groups = metric_of(name, values)[1], labels_where(labels, column)
        means[name] = mean_ci(values, seed=run.seed, bounds=bounds, groups=groups)
        if metric and metric.combine and all(parts := [scores.get(part, []) for part in metric.pools]):
            with suppress(UsageError):  # scores that the metric does not give
                means[name] = pooled_ci(parts, metric.combine, seed=run.seed, groups=labels)
    return means


def scores_of(runs: Sequence[Run], split: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the scores of every run by the metrics `names`, with their agreement with labels."""
    means = [intervals(run.scored) for run in runs]
    for metric in names:
        for run, by_metric in zip(runs, means, strict=True):
            labelled = run.agreement.metrics.get(metric) if run.agreement else None
            if mean := by_metric.get(metric):
                ends = {"mean": mean.mean, "low": mean.low, "high": mean.high, "n": mean.n}
                agreement = labelled.to_json() if labelled else {}
                yield {"run": run.name, "split": split, "metric": metric, **ends, "agreement": agreement}


def differences_of(before: ScoredRun, after: ScoredRun, split: str, names: Sequence[str]) -> list[Difference]:
    """Returns the differences between two runs in each of the metrics `names` that both have.

    The first of them decides; p and intervals are adjusted for all.
    """
    names = [name for name in names if name in before.metrics and name in after.metrics]
    sides = [(before.scores(name), after.scores(name)) for name in names]
    about = [
        metric_of(name, [score for side in pair for score in side.values() if score is not None])
        for name, pair in zip(names, sides, strict=True)
    ]
    contrasts = [Contrast(*pair, bounds) for pair, (_, bounds) in zip(sides, about, strict=True)]
    groups = {**after.groups, **{key: label for key, label in before.groups.items() if label}}
    results = adjust_family(contrasts, seed=SEED, groups=groups) if contrasts else ()
    return [
        Difference(
            metric=name,
            split=split,
            before=before.name,
            after=after.name,
            mean=contrast.result.diff,
            low=contrast.low,
            high=contrast.high,
            p=contrast.adjusted,
            n=contrast.result.n,
            adjusted=len(names) > 1,
            decides=name == names[0],
            verdict=contrast.verdict(higher_is_better=is_higher_better),
        )
        for name, contrast, (is_higher_better, _) in zip(names, results, about, strict=True)
        if contrast is not None
    ]


def questions_of(runs: Sequence[Run], metric: str) -> tuple[QuestionLine, ...]:
    """Returns the questions of `runs` in the order in which they first appear, grouped by `metric` where the
    runs have it.
    """
    by = metric if metric in metrics_of(runs) else ""
    grouped_by = by or deciding_metric([{"scores": dict.fromkeys(metrics_of(runs))}])
    lines = []
    for key in dict.fromkeys(key for run in runs for key in run.rows):
        present = [run for run in runs if key in run.rows]
        first = present[0].scored.answered[key]
        lines.append(
            QuestionLine(
                key,
                first.question,
                first.answers,
                tuple(texts(present[0].rows[key].get("gold_ids"))),
                {run.name: _answer(run, key, grouped_by) for run in present},
                _change(runs, key, by) if len(runs) > 1 else None,
            )
        )
    return tuple(lines)


def _answer(run: Run, key: str, metric: str) -> dict[str, Any]:
    row, raw = run.scored.answered[key], run.rows[key]
    answered, trace = "prediction" in raw, raw["trace"] if isinstance(raw.get("trace"), list) else []
    group = group_of(raw, metric) if answered else None
    return {
        "scores": row.scores,
        "prediction": row.prediction,
        "answered": answered,
        "failure": row.failure,
        "group": group.id if group else "",
        "group_title": group.title if group else "",
        "passages": texts(raw.get("passages")),
        "counters": {name: value for name, value in row.counters.items() if value and is_number(value)},
        "trace": [_without_inputs(event) for event in trace],
    }


def _without_inputs(event: Any) -> Any:
    """Returns an event without the inputs that its prompt repeats."""
    has_prompt = isinstance(event, Mapping) and event.get("sent")
    return {name: value for name, value in event.items() if name != "inputs"} if has_prompt else event


def _change(runs: Sequence[Run], key: str, metric: str) -> Change:
    """Returns how the score of a question changed from the first run to the last."""
    sides = [run.scored.answered.get(key) for run in (runs[0], runs[-1])]
    before, after = (side.scores.get(metric) if side else None for side in sides)
    if before is None or after is None:
        return "unchanged" if all(sides) else "only once"
    if before == after:
        return "unchanged"
    return "gained" if (after > before) == metric_of(metric)[0] else "lost"


def changes_of(runs: Sequence[Run], metric: str, questions: Iterable[QuestionLine]) -> list[dict[str, Any]]:
    """Returns how many questions were gained and lost; nothing without two runs and a metric to compare."""
    if len(runs) < 2 or metric not in metrics_of(runs):
        return []
    counts = Counter(str(line.change).replace(" ", "_") for line in questions)
    kinds = {kind: counts[kind] for kind in ("gained", "lost", "unchanged", "only_once")}
    return [{"metric": metric, "before": runs[0].name, "after": runs[-1].name, **kinds}]


def groups_of(runs: Sequence[Run], questions: Iterable[QuestionLine]) -> Iterator[dict[str, Any]]:
    """Yields how many questions of each run belong to each group, in the order of the groups."""
    counts = Counter((run, answer["group"]) for line in questions for run, answer in line.runs.items())
    for group in GROUPS.values():
        if any(counts[run.name, group.id] for run in runs):
            about = {"group": group.id, "title": group.title, "about": group.about}
            yield from ({"run": run.name, **about, "n": counts[run.name, group.id]} for run in runs)
