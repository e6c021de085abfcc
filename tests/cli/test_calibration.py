"""What people read of calibrated thresholds."""

from __future__ import annotations

from typing import Any

from ragc.cli.console import calibration_lines

MADE: dict[str, Any] = {
    "program": "slimplm", "knob": "judge_threshold", "metric": "em", "points": [0.0, 0.25, 0.75, 1.0],
    "means": [0.5, 0.5, 0.9, 0.3], "present": 0.25, "threshold": 0.75, "before": 0.5, "in_sample": 0.9,
    "validated": 0.85, "n": 20, "reached": 18, "folds": 5, "exact": True,
}  # fmt: skip


def test_a_calibrated_threshold_is_told() -> None:
    head, line = calibration_lines({"calibration": [MADE]})
    assert head.startswith("Thresholds fitted")
    assert line == (
        "  judge_threshold: em 0.500 at 0.25, 0.900 at 0.75, 0.850 cross-validated "
        "(18 of 20 questions reached it)"
    )


def test_a_threshold_that_stays_and_one_left_out_say_so() -> None:
    unchanged = MADE | {"threshold": 0.25, "in_sample": 0.5}
    left = {"program": "ggatrieval", "knob": "tau", "left_out": "no question reached it"}
    lines = list(calibration_lines({"calibration": [unchanged, left]}))
    assert lines[1].startswith("  slimplm judge_threshold: em 0.500 at 0.25, and nowhere better (18 of 20")
    assert lines[2] == "  ggatrieval tau: left alone, because no question reached it"


def test_a_search_without_calibration_says_nothing() -> None:
    assert list(calibration_lines({})) == []
