"""The README says what the code says."""

from __future__ import annotations

from ragc.programs import table
from tests.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def test_the_table_of_programs_is_the_one_that_the_code_prints() -> None:
    assert table() in README
