"""How thorough tests are: in full where `CI` is set, a quick share of it on a developer's machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

THOROUGH = bool(os.environ.get("CI"))

WHOLE_RUN = 50
"""A run over more files is one of the whole suite, which samples the cases of each test."""

QUICK_CASES = 2
"""The cases of a test in such a run: the first and the last."""

NETS = ("tests/laws/", "tests/messages/")
"""The start of the ids of tests that always run in full: they hold what users notice."""

thorough = pytest.mark.skipif(not THOROUGH, reason="takes seconds; runs where CI is set")
"""Marks a slow test: kills and damage at many places, simulations, waits."""


def examples(full: int) -> int:
    """`full` examples of a property, or a tenth of them, at least 2."""
    return full if THOROUGH else max(2, full // 10)


def cases(every: Iterable[T], quick: int) -> tuple[T, ...]:
    """All of `every`, or `quick` of them, spread evenly from the first to the last."""
    listed = tuple(every)
    if THOROUGH or quick >= len(listed):
        return listed
    return tuple(listed[number * (len(listed) - 1) // max(1, quick - 1)] for number in range(quick))
