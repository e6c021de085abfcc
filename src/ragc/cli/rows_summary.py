"""Prints the summary of a file of rows: scores, groups of questions, and the worst of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragc.cli import console, screen
from ragc.core.display import interval

if TYPE_CHECKING:
    from ragc.reports.rows import RowsSummary


def show(summary: RowsSummary) -> None:
    """Prints `summary`, wrapped on a terminal."""
    size = max(map(len, summary.metrics), default=0)
    console.lines(
        f"{name:<{size}}  {interval(name, value.mean, value.low, value.high)}  n={value.n_text}"
        f"{console.beside(summary.agreement, name)}"
        for name, value in summary.metrics.items()
    )
    if summary.failures.n:
        console.lines([summary.failures.text])
    console.lines(summary.run.remarks)
    console.lines(summary.agreement.remarks if summary.agreement else ())
    console.lines(f"{family}: {backend}" for family, backend in summary.backends.items())
    console.lines(["", f"{summary.headline}."])
    console.lines(screen.grid(summary.table(), screen.width()))
    for title, questions in summary.worst_tables():
        console.lines(["", title, *screen.records(questions, screen.width())])
