"""A compile to a directory that holds another program says what it replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.cli import console
from tests.optimizers.colours import Run, begun, written
from tests.optimizers.compile.test_cross_validation import small

SMALLER = ("search.trials=1", "search.demos=0")
"""A study that finds nothing better than the baseline of `colours`."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return begun(written(tmp_path))


def printed(compiled: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """What a compile prints, on one line."""
    console.print_compiled(compiled)
    return " ".join(capsys.readouterr().out.split())


def test_a_smaller_study_says_which_score_it_replaces(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run()
    assert first.replacement == ""
    assert "is replaced" not in printed(first, capsys)
    smaller = run(sets=SMALLER)
    expected = (
        f"The program that was in {tmp_path / 'out'} was another one and is replaced: em was "
        f"{first.test['em'].mean:.3f} on the same 25 test questions, and is "
        f"{smaller.test['em'].mean:.3f} now. Another --out keeps both."
    )
    assert smaller.replacement == expected
    assert expected in printed(smaller, capsys)
    assert smaller.to_json()["replacement"] == expected


def test_the_same_program_again_is_no_replacement(run: Run) -> None:
    run()
    assert run().replacement == ""


def test_without_test_questions_the_dev_scores_stand_side_by_side(run: Run) -> None:
    run(sets=("data.test=0",))
    smaller = run(sets=("data.test=0", *SMALLER))
    assert (
        "em was 1.000 on the same 20 dev questions, which chose both, and is 0.400 now" in smaller.replacement
    )


@pytest.mark.parametrize(
    "sets", [("search.objectives=['rougeL']", "metrics.report=['rougeL']"), ("data.dev=10", "data.test=10")]
)
def test_scores_of_other_questions_or_metrics_are_not_compared(run: Run, sets: tuple[str, ...]) -> None:
    run()
    replacement = run(sets=(*SMALLER, *sets)).replacement
    assert "is replaced; its scores are not of the same questions in the same metric" in replacement
    assert " was 1.000" not in replacement


def test_a_cross_validation_compares_with_its_like(tmp_path: Path) -> None:
    run = small(tmp_path)
    run()
    smaller = run(sets=("search.trials=2", "search.demos=1"))
    assert "on the same 30 questions, by cross-validation, and is " in smaller.replacement
