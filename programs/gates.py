"""Gates: decisions that compare a score with a threshold knob, recorded so that the knob can be fitted.

A knob declared with `threshold=True` is used in no other way, and every comparison with it passes through
here: the trace then holds, by the knob's name, what each question's scores were, and which way they went.
"""

from __future__ import annotations

from ragc.programs.trace import Gate, record

DIGITS = 6
"""Decimals of a score that count. Scores that differ by less go the same way."""


def reaches(knob: str, score: float, threshold: float) -> bool:
    """Whether `score` is at least the `threshold` that the knob called `knob` sets."""
    score = round(score, DIGITS)
    return _noted(knob, score, score >= _plain(threshold))


def exceeds(knob: str, score: float, threshold: float) -> bool:
    """Whether `score` is greater than the `threshold` that the knob called `knob` sets."""
    score = round(score, DIGITS)
    return _noted(knob, score, score > _plain(threshold))


def _plain(threshold: float) -> float:
    """`threshold` without what adding up steps leaves behind; finer than scores, so it parts any two."""
    return round(threshold, DIGITS + 3)


def _noted(knob: str, score: float, passed: bool) -> bool:
    record(Gate(knob, score, passed))
    return passed
