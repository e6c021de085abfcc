"""Reads the rows written by `ragc eval --out`: one JSON object per line and question.

    {"id", "question", "answers", "prediction", "scores": {metric: number or null}, "counters", "backends",
     "seed": of the resampling, "remark": what the scores cannot show}

Rows of questions in groups also have a `group`. Other keys, such as the trace, are ignored. No content is
executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragc.core.files import missing_file, read_text
from ragc.core.tables import dotted
from ragc.errors import DataError, UsageError
from ragc.metrics.failures import Failures
from ragc.metrics.stats.resample import Scores

MAX_FILE_BYTES = 4 * 2**30
"""Maximum size in bytes of a file of rows, which contain every prompt and passage."""
MAX_SHOWN_PROBLEMS = 10
"""Maximum number of problems reported per file; the rest is counted."""

Name = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(strict=True, gt=-1e300, lt=1e300, allow_inf_nan=False)]


class RunRow(BaseModel):
    """One question of a run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: Name
    question: str = ""
    answers: tuple[str, ...] = ()
    prediction: str | None = None
    """None when there was none; `failure` then gives the reason."""
    scores: dict[Name, Number | None]
    """None if a metric does not apply."""
    counters: dict[str, Any] = {}
    """What the question took; readers leave out what is no number."""
    backends: dict[str, str] = {}
    """The judging backend, by metric or by the family of findings that metrics read; empty when only texts
    were compared."""
    failure: str = Field(default="", coerce_numbers_to_str=True)
    failure_kind: str = Field(default_factory=lambda row: "unreadable" if row["failure"] else "")
    """One of `metrics.failures.KINDS`."""
    seen: str = ""
    """The use of the question before it was scored, such as "dev"; "" for none."""
    seed: int = Field(default=0, ge=0, strict=True)
    """The seed of the resampling of the run."""
    remark: str = ""
    """A sentence on what the scores of the run cannot show."""
    group: str = ""
    """The label of the question's group, "" for one of its own."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The questions of one run by id, in the order of the file; `name` is its name in reports."""

    name: str
    answered: Mapping[str, RunRow]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ids of all scored metrics, in the order in which they first appear."""
        return tuple(dict.fromkeys(name for row in self.answered.values() for name in row.scores))

    @property
    def seed(self) -> int:
        """The seed of the resampling of intervals: that of the first row, with which the run was scored."""
        return next((row.seed for row in self.answered.values()), 0)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the scores cannot show, a sentence each."""
        remarks = [row.remark for row in self.answered.values()]
        if seen := sum(bool(row.seen) for row in self.answered.values()):
            part = f"{seen:,} of {len(self.answered):,} questions"
            remarks.append(f"{part} were used as train or dev before, so their scores flatter the program.")
        return tuple(dict.fromkeys(filter(None, remarks)))

    @property
    def failures(self) -> Failures:
        """The questions without an answer."""
        rows = self.answered.values()
        return Failures.among([row.failure for row in rows], [(row.failure_kind, row.id) for row in rows])

    @property
    def groups(self) -> dict[str, str]:
        """The label of the group of each question by its id, "" for one of its own."""
        return {key: row.group for key, row in self.answered.items()}

    def scores(self, metric: str) -> Scores:
        """Returns the scores of `metric` by question id; None if it does not apply or was not scored."""
        return {key: row.scores.get(metric) for key, row in self.answered.items()}

    def backend(self, metric: str, family: str = "") -> str:
        """Returns the backend that judged `metric`, or the `family` that it reads; "" without one.

        Raises UsageError when the run mixes backends.
        """
        backends = {
            row.backends.get(metric, row.backends.get(family, ""))
            for row in self.answered.values()
            if row.scores.get(metric) is not None
        }
        if len(backends) > 1:
            listed = " and ".join(repr(name) for name in sorted(backends))
            raise UsageError(f"{self.name} mixes backends of {metric!r}: {listed}; score it again with one.")
        return backends.pop() if backends else ""


def read(path: str | Path, *, name: str = "") -> ScoredRun:
    """Returns the run in the JSONL file `path`, with the given `name` or that of the file.

    Raises DataError with every problem and its line: not UTF-8, not an object, a field missing or of the
    wrong type, a score that is not a finite number, a duplicate id, no row at all. Blank lines are skipped.
    """
    return read_whole(path, name=name)[0]


def read_whole(
    path: str | Path, *, name: str = "", largest: int = MAX_FILE_BYTES
) -> tuple[ScoredRun, tuple[Mapping[str, Any], ...]]:
    """Reads as `read` does; returns the rows with all their keys too, in the same order.

    A file of more than `largest` bytes is refused.
    """
    values = list(json_lines(Path(path), "the rows of an earlier run", largest))
    run = _run(name or Path(path).stem, str(path), values)
    return run, tuple(value for _, value in values)


def of_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> ScoredRun:
    """Returns the run made of `rows` in the format of `ragc eval --out`; raises DataError like `read`."""
    return _run(name, name, ((f"row {n}", row) for n, row in enumerate(rows, 1)))


def json_lines(path: Path, what: str, largest: int) -> Iterator[tuple[str, Any]]:
    """Yields the place and the JSON value of each line of `path` that is not blank, None for no JSON.

    Raises DataError, in which the file is called `what`, if it cannot be read.
    """
    try:
        lines = read_text(path, "utf-8-sig", largest).split("\n")
    except FileNotFoundError:
        raise DataError(str(path), [missing_file(what, str(path), Path())]) from None
    except OSError as error:
        raise DataError(str(path), [f"cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"cannot be read as UTF-8 text ({error})"]) from None
    for n, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield f"line {n}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {n}", None


def raise_problems(path: object, problems: list[str]) -> None:
    """Raises DataError with the first `MAX_SHOWN_PROBLEMS` of `problems`, if there are any."""
    more = len(problems) - MAX_SHOWN_PROBLEMS
    if problems:
        shown = problems[:MAX_SHOWN_PROBLEMS]
        raise DataError(str(path), [*shown, f"and {more} more"] if more > 0 else shown)


def _run(name: str, where: str, values: Iterable[tuple[str, Any]]) -> ScoredRun:
    answered: dict[str, RunRow] = {}
    problems = []
    for place, value in values:
        if not isinstance(value, Mapping):
            problems.append(f"{place}: not a JSON object; give a file that ragc eval --out wrote")
            continue
        try:
            row = RunRow.model_validate(value)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            problems.append(
                f"{place}: {dotted(detail['loc'])}: {detail['msg']}, found {detail['input']!r:.60}"
            )
            continue
        if row.id in answered:
            problems.append(f"{place}: the id {row.id!r} is used twice")
        answered[row.id] = row
    raise_problems(where, problems)
    if not answered:
        raise DataError(where, ["no question in it; give a file that ragc eval --out wrote"])
    return ScoredRun(name, answered)
