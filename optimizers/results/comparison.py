"""Compares two runs question by question: compiled programs, recipes, or files of scored rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragc.metrics.reports import compare_runs, runs
from ragc.metrics.reports.compare_runs import RunComparison
from ragc.metrics.reports.runs import Run
from ragc.optimizers.results.evaluate import Evaluation

ROWS = ".jsonl"
"""The suffix of a file of scored rows."""


def compare(
    a: Path, b: Path, evaluate: Callable[[Path], Evaluation], *, by: str = "", seed: int = 0
) -> RunComparison:
    """Compares the run `b` with the run `a`. A path that is no file of rows is scored with `evaluate` first.

    Raises RagcError.
    """
    return compare_runs.compare(_run(a, evaluate), _run(b, evaluate), by=by, seed=seed)


def _run(path: Path, evaluate: Callable[[Path], Evaluation]) -> Run:
    if path.suffix == ROWS:
        return runs.read(path)
    return runs.of_rows(str(path), (row.to_json() for row in evaluate(path).rows))
