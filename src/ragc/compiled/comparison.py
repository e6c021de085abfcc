"""Compares two runs question by question: compiled programs, recipes, or files of scored rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ragc.compiled.evaluate import Evaluation
from ragc.metrics.reports import compare_runs, runs
from ragc.metrics.reports.compare_runs import RunComparison
from ragc.metrics.reports.runs import Run

ROWS = ".jsonl"
"""The suffix of a file of scored rows."""


def compare(
    a: Path, b: Path, evaluate: Callable[[Path], Evaluation], *, by: str = "", seed: int = 0
) -> RunComparison:
    """Compares the run `b` with the run `a`. A path that is no file of rows is scored with `evaluate` first.

    Raises RagcError.
    """
    evaluations: dict[Path, Evaluation] = {}

    def read_or_score(path: Path) -> Run:
        if path.suffix == ROWS:
            return runs.read(path)
        evaluations[path] = evaluation = evaluate(path)
        return runs.of_rows(str(path), evaluation.row_values())

    files = {path: read_or_score(path) for path in (a, b) if path.suffix == ROWS}  # before anything is sent
    first, second = (files[path] if path in files else read_or_score(path) for path in (a, b))
    looks = [one.look for one in evaluations.values() if one.look]
    return replace(
        compare_runs.compare(first, second, by=by, seed=seed),
        look=max(looks, key=lambda look: look.number or 0, default=None),
    )
