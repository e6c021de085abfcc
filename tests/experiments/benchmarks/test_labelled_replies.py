"""The labelled replies to work with are read at least as well as they were when this was written."""

from __future__ import annotations

import pytest

from experiments.benchmarks.scoring.replies.__main__ import outcome, read, rows_of


@pytest.mark.parametrize(
    ("file", "share"),
    [("work.jsonl", 0.98), ("held.jsonl", 0.95), ("work2.jsonl", 0.9), ("held2.jsonl", 0.93)],
)
def test_replies_as_models_write_them_are_read_or_refused_and_hardly_ever_read_wrong(
    file: str, share: float
) -> None:
    rows = rows_of(file)
    outcomes = [outcome(row, read(row)) for row in rows]
    readable = sum(row["readable"] for row in rows)
    assert outcomes.count("right") >= share * readable
    assert outcomes.count("wrong") <= 0.01 * len(rows)
