"""Answers with citations, as ALCE's metrics want them.

A mark `[i]` names the i-th passage, numbered from 1. What a reply cites beyond that is for the
program to drop.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"\s*\[(\d+)\]")


def within(answer: str, n: int) -> tuple[str, int]:
    """`answer` without marks of passages beyond the first `n`, and how many such marks there were."""
    wrong = sum(not 1 <= int(found[1]) <= n for found in _MARK.finditer(answer))
    kept = _MARK.sub(lambda found: found[0] if 1 <= int(found[1]) <= n else "", answer)
    return kept.strip(), wrong
