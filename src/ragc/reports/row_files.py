"""Runs of a report, with their rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ragc.metrics import runs as run_files
from ragc.metrics.labels import LabelAgreement, agreement_beside
from ragc.metrics.runs import ScoredRun
from ragc.reports.failures import deciding_metric, group_of

MAX_BYTES = 2**30
"""Maximum size in bytes of a file of rows that becomes part of a report."""

GetRow = Callable[[str], Mapping[str, Any]]
"""Returns the whole row with a question id."""


class RowSource(Protocol):
    """The access to the whole rows of a run."""

    def opened(self) -> AbstractContextManager[GetRow]:
        """Opens the source for reading. Raises DataError, and reading does."""
        ...


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows in memory, by question id."""

    rows: Mapping[str, Mapping[str, Any]]

    @contextmanager
    def opened(self) -> Iterator[GetRow]:
        """Yields the function that returns a row by key; nothing has to be opened."""
        yield self.rows.__getitem__


@dataclass(frozen=True, slots=True)
class RunRows:
    """A run: its scores by question, and the source of its whole rows.

    `answered` has the ids of the rows with a prediction, null too, and not scores alone. `groups` are the ids
    of the groups of outcomes of those, as `group_metric` decides them. `on_dev` says whether a row has a
    question of the split dev. `agreement` is that of judged metrics with the labels beside the file, None
    without any.
    """

    run: ScoredRun
    source: RowSource
    answered: frozenset[str] | set[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    group_metric: str = ""
    on_dev: bool = False
    agreement: LabelAgreement | None = None

    @property
    def deciding_metric(self) -> str:
        """The first metric that scores answers; "" when none does."""
        return deciding_metric([{"scores": dict.fromkeys(self.run.metrics)}])

    @property
    def name(self) -> str:
        """The name of the run in the report."""
        return self.run.name

    def grouped_by(self, metric: str) -> Mapping[str, str]:
        """Returns the group of every answered question, if `metric` decides what is right."""
        if metric == self.group_metric:
            return self.groups
        with self.source.opened() as get:
            return {key: group_of(get(key), metric).id for key in self.run.answered if key in self.answered}


def read_rows(path: Path, name: str) -> RunRows:
    """Returns the run in the JSONL file `path`. Raises DataError with every problem, like `ragc eval A B`."""
    run, values = run_files.read_whole(path, name=name, largest=MAX_BYTES)
    collected = _Collected()
    for row in values:
        collected.add(row)
    rows = collected.run_rows(run, HeldRows({row["id"]: row for row in values}))
    return replace(rows, agreement=agreement_beside(path, run))


def rows_of(name: str, values: Iterable[Any], where: str = "") -> RunRows:
    """Returns the run made of JSON `values`, one a row. Raises DataError, which names `where`."""
    rows = list(values)
    run = run_files.of_rows(where or name, rows)
    collected = _Collected()
    for row in rows:
        collected.add(row)
    return collected.run_rows(ScoredRun(name, run.answered), HeldRows({row["id"]: row for row in rows}))


class _Collected:
    """The stored part of each row beside its scores; usually the first row names the deciding metric."""

    def __init__(self) -> None:
        self.metric: str | None = None
        self.groups: dict[str, str] = {}
        self.on_dev = False

    def add(self, row: Mapping[str, Any]) -> None:
        self.on_dev = self.on_dev or row.get("split") == "dev"
        if "prediction" not in row:
            return
        if self.metric is None:
            self.metric = deciding_metric([row])
        self.groups[str(row.get("id"))] = group_of(row, self.metric).id

    def run_rows(self, run: ScoredRun, source: RowSource) -> RunRows:
        answered = frozenset(self.groups)
        return RunRows(run, source, answered, self.groups, self.metric or "", self.on_dev)
