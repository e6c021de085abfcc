"""Labels of a person, which correct what a judge makes of two runs: `ragc eval A B --labels FILE.jsonl`.

    {"id": the question's, "arm": "a", "b" or the name of a run, "label": 0, 1 or a score}
    {"label": "correct" or "wrong", "answer": "<digest>", ...}     as `ragc questions label` writes them

One line a label. The second kind holds for each run that gave that answer. No content is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragc.core.display import quantity
from ragc.core.files import missing_file, read_text
from ragc.errors import DataError, UsageError
from ragc.metrics.base import Metric
from ragc.metrics.judged.labels import CORRECT, WRONG, digest
from ragc.metrics.reports.runs import ScoredRun
from ragc.metrics.stats.multiple import after_looks
from ragc.metrics.stats.prediction_powered import Corrected, correct

MIN_LABELS = 30
"""The fewest labels of a run: with fewer the intervals do not cover."""

MAX_BYTES = 64 * 2**20
SHOWN = 10
"""Problems of a file that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of both runs by question id, from the file `path`."""

    path: str
    a: Mapping[str, float]
    b: Mapping[str, float]


def read(
    path: Path, a: ScoredRun, b: ScoredRun, metric: Metric, *, names: Sequence[str] = ("", "")
) -> Labels:
    """Returns the labels in `path` of answers in the runs `a` and `b`, for the scores of `metric`.

    An arm is "a" or "b", the name of the run, or the one in `names`. Raises DataError with every problem and
    its line, and UsageError for labels of one run only, for fewer than `MIN_LABELS` of one, and for a metric
    without a least and a greatest score.
    """
    bounds = metric.bounds
    if bounds is None or metric.combine is not None:
        raise UsageError(
            f"Labels correct a metric with a least and a greatest score for each question, and {metric.id!r} "
            "has none; name the judge's metric with --by."
        )
    arms = {name: at for at, run in enumerate((a, b)) for name in ("ab"[at], run.name, names[at]) if name}
    arms |= {"A": 0, "B": 1}
    scored = [{key for key, score in run.scores(metric.id).items() if score is not None} for run in (a, b)]
    shared = scored[0] & scored[1]
    held: tuple[dict[str, float], dict[str, float]] = ({}, {})
    problems: list[str] = []
    for n, row in _expanded(_rows(path), _answered(a, b)):
        problem = _problem(row, arms, shared, bounds)
        if not problem and row["id"] in held[arms[row["arm"]]]:
            problem = f"question {row['id']!r} has two labels of {row['arm']!r}"
        if problem:
            problems.append(f"line {n}: {problem}")
        else:
            held[arms[row["arm"]]][row["id"]] = float(row["label"])
    if len(problems) > SHOWN:
        problems[SHOWN:] = [f"and {len(problems) - SHOWN} more"]
    if problems:
        raise DataError(str(path), problems)
    _check_numbers(path, held, (a.name, b.name), len(shared))
    return Labels(str(path), *held)


def _check_numbers(
    path: Path, held: Sequence[Mapping[str, float]], names: Sequence[str], shared: int
) -> None:
    if shared < MIN_LABELS:
        raise UsageError(
            f"Both runs share {quantity(shared, 'scored question')}, and a correction needs {MIN_LABELS} "
            "labels of each run; compare them on more questions."
        )
    for own, other in ((0, 1), (1, 0)):
        if held[own] and not held[other]:
            raise UsageError(
                f"{path} has {quantity(len(held[own]), 'label')} of {names[own]} and none of {names[other]}, "
                f"so nothing shows whether the judge treats both alike; label {MIN_LABELS} answers of each."
            )
    if min(map(len, held)) < MIN_LABELS:
        counts = " and ".join(f"{len(one)} of {name}" for one, name in zip(held, names, strict=True))
        raise UsageError(
            f"{path} has labels of {counts}, and a correction needs at least {MIN_LABELS} of each; label "
            "more answers, drawn at random."
        )


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields the lines of the file as JSON values, None where one is none."""
    try:
        lines = read_text(path, "utf-8-sig", MAX_BYTES).split("\n")
    except FileNotFoundError:
        raise DataError(str(path), [missing_file("the labels", str(path), Path())]) from None
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"cannot be read as UTF-8 text ({error})"]) from None
    except OSError as error:
        raise DataError(str(path), [f"cannot be read: {error.strerror or error}"]) from None
    for n, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield n, json.loads(line)
            except (ValueError, RecursionError):
                yield n, None


def _answered(*runs: ScoredRun) -> dict[str, list[tuple[str, str]]]:
    """Returns the arms and question ids of each answer, by its digest."""
    arms: dict[str, list[tuple[str, str]]] = {}
    for arm, run in zip("ab", runs, strict=True):
        for key, row in run.answered.items():
            mark = digest({"question": row.question, "prediction": row.prediction})
            arms.setdefault(mark, []).append((arm, key))
    return arms


def _expanded(
    lines: Iterator[tuple[int, Any]], answered: Mapping[str, Sequence[tuple[str, str]]]
) -> Iterator[tuple[int, Any]]:
    """Yields rows with an arm: a label of an answer once for each run that gave it, others as they are."""
    scores = {CORRECT: 1.0, WRONG: 0.0}
    for n, row in lines:
        if not isinstance(row, dict) or "arm" in row or not isinstance(row.get("answer"), str):
            yield n, row
            continue
        label = scores.get(str(row.get("label")), row.get("label"))
        for arm, key in answered.get(row["answer"], [("", str(row.get("id", "")))]):
            yield n, {"id": key, "arm": arm, "label": label}


def _problem(row: Any, arms: Mapping[str, int], shared: set[str], bounds: tuple[float, float]) -> str:
    if not isinstance(row, dict):
        return 'not a JSON object such as {"id": "q1", "arm": "a", "label": 1}'
    key, arm, label = row.get("id"), row.get("arm"), row.get("label")
    if arm == "":
        return f"its answer to {key!r} is in neither run"
    if not isinstance(arm, str) or arm not in arms:
        known = ", ".join(sorted((name for name in arms if name not in ("A", "B")), key=len))
        return f"'arm' is one of {known}, but found {arm!r}"
    if not isinstance(key, str) or key not in shared:
        return f"'id' must be a question that both runs have a score of, but found {key!r}"
    if not isinstance(label, int | float) or not bounds[0] <= label <= bounds[1]:
        return f"'label' must be a number from {bounds[0]:g} to {bounds[1]:g}, but found {label!r}"
    return ""


@dataclass(frozen=True, slots=True)
class Correction:
    """The difference of `metric` between the runs `a` and `b`, corrected by labels.

    `remarks` are sentences on what judge or labels cannot show.
    """

    metric: str
    a: str
    b: str
    result: Corrected
    remarks: tuple[str, ...] = ()

    def after_looks(self, factor: int) -> Correction:
        """Returns the correction, also adjusted by the `factor` of a look at test questions."""
        r = self.result
        p, low, high = after_looks(factor, r.diff, r.p, (r.low, r.high), confidence=r.confidence)
        return replace(self, result=replace(r, p=p, low=low, high=high))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {"metric": self.metric, **self.result.to_json(), "remarks": list(self.remarks)}

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people: the corrected difference, and how the judge erred on either run."""
        r = self.result
        return (
            (
                f"{self.metric}, corrected by {r.labels[0]} and {r.labels[1]} labels: difference "
                f"{r.diff:+.3f} [{r.low:+.3f}, {r.high:+.3f}], p {r.p:.4f}; by the judge alone "
                f"{r.judged:+.3f}."
            ),
            (
                f"Where there are labels, the judge gave {self.a} {_too_much(r.error_a)} and {self.b} "
                f"{_too_much(r.error_b)}."
            ),
            *self.remarks,
        )


def _too_much(error: float) -> str:
    return f"{abs(error):.3f} too {'much' if error >= 0 else 'little'}"


def corrected(labels: Labels, a: ScoredRun, b: ScoredRun, metric: Metric) -> Correction:
    """Returns the difference b - a of `metric`, over the questions scored in both runs, corrected by
    `labels`.
    """
    first, second = a.scores(metric.id), b.scores(metric.id)
    pairs = {
        key: (before, after)
        for key in first
        if (before := first[key]) is not None and (after := second.get(key)) is not None
    }
    position = {key: at for at, key in enumerate(pairs)}
    columns = [list(column) for column in zip(*pairs.values(), strict=True)]
    result = correct(
        columns[0],
        columns[1],
        {position[key]: label for key, label in labels.a.items()},
        {position[key]: label for key, label in labels.b.items()},
        bounds=metric.bounds or (0.0, 1.0),
        groups=[a.groups[key] or b.groups[key] for key in pairs],
    )
    remarks = []
    for run, scores, held in ((a, columns[0], labels.a), (b, columns[1], labels.b)):
        if min(scores) == max(scores):
            remarks.append(
                f"The judge gave every answer of {run.name} {scores[0]:g}, so it tells none of them apart; "
                "what is known of them comes from the labels."
            )
        if all(scores[position[key]] == label for key, label in held.items()):
            remarks.append(
                f"The judge agreed with all {len(held)} labels of {run.name}; the interval counts one "
                "further error."
            )
    return Correction(metric.id, a.name, b.name, result, tuple(remarks))
