"""Compares two runs question by question: compiled programs, recipes, or files of scored rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ragc.compiled.evaluate import Evaluation
from ragc.metrics import runs
from ragc.metrics.compare import RunComparison
from ragc.metrics.compare import compare as compare_runs
from ragc.metrics.runs import ScoredRun
from ragc.store.used_questions import TestUse

ROWS = ".jsonl"
"""The suffix of a file of scored rows."""


def compare(
    a: Path,
    b: Path,
    evaluate: Callable[[Path, ScoredRun | None], Evaluation],
    *,
    by: str = "",
    seed: int = 0,
    labels: Path | None = None,
) -> RunComparison:
    """Compares the run `b` with the run `a`. A path that is no file of rows is scored with `evaluate` first,
    which gets the rows of the other one, if these are there.

    `labels` is a file of a person's labels, which correct the metric `by` (`ragc.metrics.labels`).
    Where `evaluate` leaves looks at test questions uncounted, both programs are one look; p and intervals are
    adjusted for the looks before. Raises RagcError.
    """
    evaluations: dict[Path, Evaluation] = {}

    def read_or_score(path: Path) -> ScoredRun:
        if path not in scored:
            evaluations[path] = evaluation = evaluate(path, next(iter(scored.values()), None))
            scored[path] = runs.of_rows(str(path), evaluation.row_values())
        return scored[path]

    scored = {path: runs.read(path) for path in (a, b) if path.suffix == ROWS}  # before anything is sent
    first, second = (read_or_score(path) for path in (a, b))
    compared = compare_runs(first, second, by=by, seed=seed)
    if labels is not None:
        compared = compared.corrected(labels, names=(str(a), str(b)))
    return compared.at(_look_of(list(evaluations.values())))


def _look_of(evaluations: Sequence[Evaluation]) -> TestUse | None:
    """Returns the look of a comparison: of what is new in it the first, else the last of those before."""
    showings = [one.showing for one in evaluations if one.showing]
    if len(showings) == 2 and (both := showings[0].joined(showings[1])):
        showings = [both]
    looks = [*(one.look for one in evaluations if one.look), *(one.count() for one in showings)]
    unknown = next((look for look in looks if look.number is None), None)
    new = [look for look in looks if not look.again]
    if unknown or new:
        return unknown or min(new, key=lambda look: look.number or 0)
    return max(looks, key=lambda look: look.number or 0, default=None)
