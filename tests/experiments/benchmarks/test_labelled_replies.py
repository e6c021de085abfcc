"""The labelled replies to work with are read at least as well as they were when this was written."""

from __future__ import annotations

from experiments.benchmarks.scoring.replies.__main__ import outcome, read, rows_of


def test_replies_as_models_write_them_are_read_or_refused_and_hardly_ever_read_wrong() -> None:
    rows = rows_of("work.jsonl")
    outcomes = [outcome(row, read(row)) for row in rows]
    readable = sum(row["readable"] for row in rows)
    assert outcomes.count("right") >= 0.98 * readable
    assert outcomes.count("wrong") <= 0.005 * len(rows)
