"""The labelled replies to work with are read at least as well as they were when this was written."""

from __future__ import annotations

import pytest

from tests.programs.calls.labelled_replies import outcome, read, rows_of


@pytest.mark.parametrize(
    ("file", "share", "wrong"),
    [
        ("work.jsonl", 0.98, 0),
        ("held.jsonl", 0.95, 0),
        ("work2.jsonl", 0.9, 0),
        ("held2.jsonl", 0.93, 0),
        ("held3.jsonl", 0.9, 6),
    ],
)
def test_labelled_replies_are_read_or_refused_and_hardly_ever_read_wrong(
    file: str, share: float, wrong: int
) -> None:
    rows = rows_of(file)
    outcomes = [outcome(row, read(row)) for row in rows]
    readable = sum(row["readable"] for row in rows)
    assert outcomes.count("right") >= share * readable
    assert outcomes.count("wrong") <= wrong
