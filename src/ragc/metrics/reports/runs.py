"""Reads the rows written by `ragc eval --out`: one JSON object per line and question.

    {"id", "question", "answers", "prediction", "scores": {metric: number or null}, "counters", "backends",
     "seed": of the resampling, "remark": what the scores cannot show}

Rows of questions in groups also have a `group`. Other keys, such as the trace, are ignored. No content is
executed.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.files import missing_file, open_regular, read_text
from ragc.errors import DataError, UsageError
from ragc.metrics.failures import Failures
from ragc.metrics.stats.multiple import Scores

MOST = 1e300
"""Upper bound of a valid score."""
MAX_FILE_BYTES = 4 * 2**30
"""Maximum size in bytes of a file of rows, which contain every prompt and passage."""
MAX_SHOWN_PROBLEMS = 10
"""Maximum number of problems reported per file; the rest is counted."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One question of a run. `prediction` is None when there was none; `failure` then gives the reason, and
    `failure_kind` the kind, one of `metrics.failures.KINDS`.

    `scores` has None if a metric does not apply. `backends` names the judging backend, by metric or by the
    family of findings that metrics read; it is empty when only texts were compared. `seen` is the use of the
    question before it was scored, such as "dev"; "" for none. `seed` is that of the resampling of the run,
    and `remark` a sentence on what its scores cannot show, "" for none. `group` is the label of the
    question's group, "" for one of its own.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    prediction: str | None
    scores: Scores
    counters: Mapping[str, float] = field(default_factory=dict)
    backends: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    failure_kind: str = ""
    seen: str = ""
    seed: int = 0
    remark: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The questions of one run by id, in the order of the file; `name` is its name in reports."""

    name: str
    answered: Mapping[str, RunRow]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ids of all scored metrics, in the order in which they first appear."""
        names: dict[str, None] = {}
        for row in self.answered.values():
            names.update(dict.fromkeys(row.scores))
        return tuple(names)

    @property
    def seed(self) -> int:
        """The seed of the resampling of intervals: that of the first row, with which the run was scored."""
        return next((row.seed for row in self.answered.values()), 0)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the scores cannot show, a sentence each."""
        remarks = (row.remark for row in self.answered.values())
        return tuple(dict.fromkeys(filter(None, [*remarks, self.seen_remark])))

    @property
    def failures(self) -> Failures:
        """The questions without an answer."""
        rows = self.answered.values()
        return Failures.among([row.failure for row in rows], [(row.failure_kind, row.id) for row in rows])

    @property
    def seen_remark(self) -> str:
        """Returns a sentence on questions that taught or chose the program; "" for none."""
        seen = sum(bool(row.seen) for row in self.answered.values())
        part = f"{seen:,} of {len(self.answered):,} questions"
        return (
            f"{part} were used as train or dev before, so their scores flatter the program." if seen else ""
        )

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
    return _run(name or Path(path).stem, str(path), _values(Path(path)))


def read_whole(
    path: str | Path, *, name: str = "", largest: int = MAX_FILE_BYTES
) -> tuple[ScoredRun, tuple[Mapping[str, Any], ...]]:
    """Reads as `read` does; returns the whole rows beside the run, in the same order.

    A file of more than `largest` bytes is refused.
    """
    values = list(_values(Path(path), largest))
    run = _run(name or Path(path).stem, str(path), values)
    return run, tuple(value for _, value in values)


def scan(
    path: str | Path,
    seen: Callable[[int, int, Mapping[str, Any]], None],
    *,
    name: str = "",
    largest: int = MAX_FILE_BYTES,
) -> ScoredRun:
    """Reads as `read` does, with one row in memory at a time.

    `seen` is called for each row with the offset of its line in the file, the length of the line, both in
    bytes, and its value. A file of more than `largest` bytes is refused.
    """
    return _run(name or Path(path).stem, str(path), _scanned(Path(path), seen, largest))


def _scanned(
    path: Path, seen: Callable[[int, int, Mapping[str, Any]], None], largest: int
) -> Iterator[tuple[str, Any]]:
    """Yields the values of the lines of `path`, read one by one; `seen` is called after each row."""
    with _as_data_error(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EFBIG, f"it is larger than {largest // 2**20} MiB", str(path))
        offset = 0
        for n, line in enumerate(file, 1):
            start, offset = offset, offset + len(line)
            text = line.decode("utf-8-sig" if n == 1 else "utf-8")
            if text.strip():
                value = _parse_json(text)
                yield f"line {n}", value
                if isinstance(value, Mapping):
                    seen(start, len(line), value)


@contextmanager
def _as_data_error(path: Path) -> Iterator[None]:
    """Converts errors of reading the file of rows at `path` to DataError."""
    try:
        yield
    except FileNotFoundError:
        problem = missing_file("the rows of an earlier run", str(path), Path())
        raise DataError(str(path), [problem]) from None
    except OSError as error:
        raise DataError(str(path), [f"cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"cannot be read as UTF-8 text ({error})"]) from None


def _values(path: Path, largest: int = MAX_FILE_BYTES) -> Iterator[tuple[str, Any]]:
    """Yields the values of the lines of `path`, each with its location."""
    with _as_data_error(path):
        lines = read_text(path, "utf-8-sig", largest).split("\n")
    for n, line in enumerate(lines, 1):
        if line.strip():
            yield f"line {n}", _parse_json(line)


def of_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> ScoredRun:
    """Returns the run made of `rows` in the format of `ragc eval --out`; raises DataError like `read`."""
    return _run(name, name, ((f"row {n}", row) for n, row in enumerate(rows, 1)))


def _run(name: str, where: str, values: Iterable[tuple[str, Any]]) -> ScoredRun:
    answered: dict[str, RunRow] = {}
    problems = []
    for location, value in values:
        problem = _problem(value, answered)
        if problem:
            problems.append(f"{location}: {problem}")
        else:
            answered[value["id"]] = _read_row(value)
    if len(problems) > MAX_SHOWN_PROBLEMS:
        problems[MAX_SHOWN_PROBLEMS:] = [f"and {len(problems) - MAX_SHOWN_PROBLEMS} more"]
    if not problems and not answered:
        problems = ["no question in it; give a file that ragc eval --out wrote"]
    if problems:
        raise DataError(where, problems)
    return ScoredRun(name, answered)


def _parse_json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _problem(row: Any, before: Mapping[str, RunRow]) -> str:
    if not isinstance(row, Mapping):
        return "not a JSON object; give a file that ragc eval --out wrote"
    key, scores = row.get("id"), row.get("scores")
    if not isinstance(key, str) or not key:
        return "needs a text 'id'"
    if key in before:
        return f"the id {key!r} is used twice"
    if not isinstance(scores, Mapping):
        return "needs an object 'scores'"
    if bad := [f"{name} = {score!r}" for name, score in scores.items() if not _is_score(score)]:
        return f"scores must be finite numbers or null, but found {', '.join(bad)}"
    if not isinstance(row.get("prediction"), str | None):
        return "'prediction' must be text or null"
    if not isinstance(answers := row.get("answers", []), list | tuple) or not all(
        isinstance(answer, str) for answer in answers
    ):
        return "'answers' must be a list of texts"
    if not isinstance(row.get("group", ""), str):
        return "'group' must be text"
    if bad := [name for name in ("counters", "backends") if not isinstance(row.get(name, {}), Mapping)]:
        return f"{bad[0]!r} must be an object"
    return ""


def _is_score(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and -MOST < value < MOST)


def _read_row(row: Mapping[str, Any]) -> RunRow:
    return RunRow(
        id=row["id"],
        question=str(row.get("question", "")),
        answers=tuple(row.get("answers", ())),
        prediction=row.get("prediction"),
        scores={name: None if score is None else float(score) for name, score in row["scores"].items()},
        counters={name: n for name, n in row.get("counters", {}).items() if isinstance(n, int | float)},
        backends={name: str(backend) for name, backend in row.get("backends", {}).items()},
        failure=str(row.get("failure", "")),
        failure_kind=str(row.get("failure_kind", "unreadable" if row.get("failure") else "")),
        seen=str(row.get("seen", "")),
        seed=_seed(row.get("seed")),
        remark=str(row.get("remark") or ""),
        group=row.get("group", ""),
    )


def _seed(value: object) -> int:
    """Returns the seed in a row; 0 without one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
