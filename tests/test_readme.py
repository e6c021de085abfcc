"""The README says what the code says."""

from __future__ import annotations

from pathlib import Path

from ragc.programs import table

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def test_the_table_of_programs_is_the_one_that_the_code_prints() -> None:
    assert table() in README
