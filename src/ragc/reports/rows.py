"""Summarizes a file of rows: the mean of each metric, and the questions grouped by where they failed.

Nothing in a row is run, and no module that the name of a metric refers to is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.core.redact import shorten
from ragc.errors import UnknownName
from ragc.metrics import labels as labelled
from ragc.metrics.failures import Failures
from ragc.metrics.labels import LabelAgreement
from ragc.metrics.runs import RunRow, ScoredRun, read_whole
from ragc.metrics.stats.resample import Interval
from ragc.reports.failures import GROUPS, Group, deciding_metric, group_of
from ragc.reports.questions import intervals


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
            "worst": [_question(row) | {"score": row.scores.get(metric)} for row in self.worst],
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
        right = sum(len(members.rows) for members in self.groups if members.group.id == "right")
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
                (
                    members.group.title,
                    str(len(members.rows)),
                    f"{len(members.rows) / self.n:.1%}",
                    members.group.about,
                )
                for members in self.groups
            ),
        )

    def worst_tables(self) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
        """Returns title and worst questions of each group but the right one, the header first."""
        head = ("id", "question", "answer", "gold")
        return tuple(
            (f"{members.group.title} ({len(members.rows)}):", (head, *map(_cells, members.worst)))
            for members in self.groups
            if members.group.id != "right"
        )


def summarize(
    path: str | Path, *, by: str = "", worst: int = 3, labels: str | Path | None = None
) -> RowsSummary:
    """Returns the summary of the file of rows `path`, with the `worst` questions of each group.

    `by` names the metric that decides what is right, by default the first that scores answers. `labels` is
    the file of a person's labels, by default the one next to the rows. Raises DataError for a damaged file,
    UnknownName for a metric that the rows do not have, and UsageError for labels of other rows.
    """
    run, rows = read_whole(path)
    if by and by not in run.metrics:
        raise UnknownName("metric of the rows", by, run.metrics)
    by = by or deciding_metric(rows)
    grouped: dict[Group, list[RunRow]] = {group: [] for group in GROUPS.values()}
    for row in rows:
        grouped[group_of(row, by)].append(run.answered[row["id"]])
    groups = [
        GroupedQuestions(
            group, tuple(members), tuple(sorted(members, key=lambda row: row.scores.get(by) or 0.0)[:worst])
        )
        for group, members in grouped.items()
        if members
    ]
    return RowsSummary(run, intervals(run), by, tuple(groups), _agreement(Path(path), run, labels))


def _agreement(path: Path, run: ScoredRun, labels: str | Path | None) -> LabelAgreement | None:
    """Returns the agreement of `run` with `labels`, or those next to its rows; None without any."""
    if labels is None:
        return labelled.agreement_beside(path, run)
    if not labelled.judged_metrics(run):
        raise labelled.no_judged_metric()
    answers = labelled.AnswerLabels.read(labels)
    answers.check_asked(row.question for row in run.answered.values())
    return answers.agreement(run)


def _question(row: RunRow) -> dict[str, Any]:
    """Returns a question with its answers, texts cut short."""
    answer = row.prediction if row.prediction is not None else f"none ({row.failure or 'no reason given'})"
    texts = {"id": row.id, "question": _short(row.question), "answer": _short(answer)}
    return {**texts, "gold": [_short(gold) for gold in row.answers]}


def _cells(row: RunRow) -> tuple[str, ...]:
    texts = _question(row) | {"id": _short(row.id), "gold": _short(" | ".join(row.answers))}
    return tuple(text or "(not in the rows)" for text in texts.values())


def _short(text: str) -> str:
    return shorten(text, 100)
