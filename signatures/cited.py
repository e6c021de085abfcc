"""Answering with citations, as ALCE's metrics want it (METHODS sections 3.2 and 7.4).

A mark `[i]` names the i-th passage, numbered from 1. What a reply cites beyond that is for the
program to drop.
"""

from __future__ import annotations

import re

import dspy

_MARK = re.compile(r"\s*\[(\d+)\]")


class CitedAnswer(dspy.Signature):
    """Answer the question from the passages, briefly and in one paragraph.

    End every sentence with the numbers of the one to three passages that support it, such as [1] or [2][3].
    """

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField(desc="numbered from 1")
    answer: str = dspy.OutputField(desc="text with marks such as [1]")


def within(answer: str, n: int) -> tuple[str, int]:
    """`answer` without marks of passages beyond the first `n`, and how many such marks there were."""
    wrong = sum(not 1 <= int(found[1]) <= n for found in _MARK.finditer(answer))
    kept = _MARK.sub(lambda found: found[0] if 1 <= int(found[1]) <= n else "", answer)
    return kept.strip(), wrong
