"""Summarizes a file of rows: the mean of each metric, and the questions grouped by where they failed.

Nothing in a row is run, and no module that the name of a metric refers to is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.core.redact import shorten
from ragc.errors import UnknownName, UsageError
from ragc.metrics import runs
from ragc.metrics.failures import Failures
from ragc.metrics.labels import (
    AnswerLabels,
    LabelAgreement,
    agreement_beside,
    judged_metrics,
    known_metric,
    no_judged_metric,
)
from ragc.metrics.runs import RunRow, ScoredRun
from ragc.metrics.stats.groups import labels_where
from ragc.metrics.stats.resample import Interval, mean_ci, pooled_ci
from ragc.reports.failures import GROUPS, RIGHT, Group, deciding_metric, group_of
from ragc.reports.questions import metric_of

WORST_SHOWN = 3
"""Questions of a group that are shown, by default."""

MAX_CELL_CHARS = 100
"""Maximum length of a question or answer in a table, in characters."""


@dataclass(frozen=True, slots=True)
class GroupedQuestions:
    """The questions of one group in the order of the file, and the worst of them, worst first."""

    group: Group
    rows: tuple[RunRow, ...]
    worst: tuple[RunRow, ...]

    def to_json(self, of: int, metric: str) -> dict[str, Any]:
        """Returns JSON values only; `share` is the part of `of` questions."""
        return {
            "id": self.group.id,
            "title": self.group.title,
            "n": len(self.rows),
            "share": len(self.rows) / of,
            "worst": [_question(row, metric) for row in self.worst],
            "questions": [row.id for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class RowsSummary:
    """A summary of a file of rows: an Interval a metric, and `groups` of questions, none of them empty.

    `by` is the metric that decides what is right; "" when none does. `agreement` is that of judged metrics
    with a person's labels, None without labels.
    """

    run: ScoredRun
    metrics: Mapping[str, Interval]
    by: str
    groups: tuple[GroupedQuestions, ...]
    agreement: LabelAgreement | None = None

    def __repr__(self) -> str:
        counts = {group.group.id: len(group.rows) for group in self.groups}
        return describe("RowsSummary", repr(self.run.name), quantity(self.n, "question"), **counts)

    @property
    def n(self) -> int:
        """The number of questions."""
        return len(self.run.answered)

    @property
    def failures(self) -> Failures:
        """The questions without an answer."""
        return self.run.failures

    @property
    def backends(self) -> dict[str, str]:
        """The backends of the findings that metrics read, by family or metric; several are joined."""
        names: dict[str, dict[str, None]] = {}
        for row in self.run.answered.values():
            for family, backend in row.backends.items():
                names.setdefault(family, {})[backend] = None
        return {family: " and ".join(listed) for family, listed in names.items()}

    @property
    def headline(self) -> str:
        """How many questions are right, and by which metric."""
        right = next((len(group.rows) for group in self.groups if group.group is RIGHT), 0)
        by = f", with full marks by {self.by}" if self.by else "; no metric scores the answers"
        return f"{right} of {quantity(self.n, 'question')} right{by}"

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc eval ROWS.jsonl --json`."""
        return {
            "rows": self.run.name,
            "n": self.n,
            "metrics": {name: value.to_json() for name, value in self.metrics.items()},
            **self.failures.table_json(),
            "backends": self.backends,
            "by": self.by,
            "groups": [group.to_json(self.n, self.by) for group in self.groups],
            **({"remark": " ".join(self.run.remarks)} if self.run.remarks else {}),
            **({"agreement": self.agreement.to_json()} if self.agreement else {}),
        }

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Returns the groups as rows of text, the header first."""
        return (
            ("group", "questions", "share", "about"),
            *(
                (one.group.title, str(len(one.rows)), f"{len(one.rows) / self.n:.1%}", one.group.about)
                for one in self.groups
            ),
        )

    def worst_tables(self) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
        """Returns title and worst questions of each group but the right one, the header first."""
        head = ("id", "question", "answer", "gold")
        return tuple(
            (
                f"{one.group.title} ({len(one.rows)}):",
                (head, *(_cells(row) for row in one.worst)),
            )
            for one in self.groups
            if one.group is not RIGHT
        )


def summarize(
    path: str | Path, *, by: str = "", worst: int = WORST_SHOWN, labels: str | Path | None = None
) -> RowsSummary:
    """Returns the summary of the file of rows `path`, with the `worst` questions of each group.

    `by` names the metric that decides what is right, by default the first that scores answers. `labels` is
    the file of a person's labels, by default the one beside the rows. Raises DataError for a damaged file,
    UnknownName for a metric that the rows do not have, and UsageError for labels of other rows.
    """
    run, rows = runs.read_whole(path)
    if by and by not in run.metrics:
        raise UnknownName("metric of the rows", by, run.metrics)
    by = by or deciding_metric(rows)
    grouped: dict[str, list[RunRow]] = {}
    for row in rows:
        grouped.setdefault(group_of(row, by).id, []).append(run.answered[row["id"]])
    groups = []
    for group in GROUPS:
        if held := grouped.get(group.id):
            by_score = sorted(held, key=lambda row: row.scores.get(by) or 0.0)
            groups.append(GroupedQuestions(group, tuple(held), tuple(by_score[:worst])))
    return RowsSummary(run, _intervals(run), by, tuple(groups), _agreement(Path(path), run, labels))


def _agreement(path: Path, run: ScoredRun, labels: str | Path | None) -> LabelAgreement | None:
    """Returns the agreement of `run` with `labels`, or those beside its rows; None without any."""
    if labels is None:
        return agreement_beside(path, run)
    if not judged_metrics(run):
        raise no_judged_metric()
    held = AnswerLabels.read(labels)
    held.check_asked(row.question for row in run.answered.values())
    return held.agreement(run)


def _intervals(run: ScoredRun) -> dict[str, Interval]:
    """Returns the mean of each metric, with its interval, without metrics that apply to no question."""
    scores = {name: list(run.scores(name).values()) for name in run.metrics}
    labels = list(run.groups.values())
    means = {}
    for name, column in scores.items():
        values = [score for score in column if score is not None]
        if values:
            means[name] = _pooled(name, scores, labels, run.seed) or mean_ci(
                values, seed=run.seed, bounds=metric_of(name, values)[1], groups=labels_where(labels, column)
            )
    return means


def _pooled(
    name: str, scores: Mapping[str, Sequence[float | None]], labels: Sequence[str], seed: int
) -> Interval | None:
    """Returns the figure of a metric made of several means; None for others, or if the rows lack one."""
    metric = known_metric(name)
    columns = [scores.get(part, ()) for part in metric.pools] if metric else []
    if metric is None or metric.combine is None or not all(columns):
        return None
    try:
        return pooled_ci(columns, metric.combine, seed=seed, groups=labels)
    except UsageError:  # scores that the metric does not give
        return None


def _question(row: RunRow, metric: str) -> dict[str, Any]:
    """Returns a question with its answers, texts cut short."""
    return {
        "id": row.id,
        "question": _short(row.question),
        "answer": _short(_answer(row)),
        "gold": [_short(gold) for gold in row.answers],
        "score": row.scores.get(metric),
    }


def _cells(row: RunRow) -> tuple[str, ...]:
    texts = (row.id, row.question, _answer(row), " | ".join(row.answers))
    return tuple(_short(text) or "(not in the rows)" for text in texts)


def _answer(row: RunRow) -> str:
    return row.prediction if row.prediction is not None else f"none ({row.failure or 'no reason given'})"


def _short(text: str) -> str:
    return shorten(text, MAX_CELL_CHARS)
