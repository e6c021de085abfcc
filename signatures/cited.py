"""Answers with citations, as ALCE's metrics want them.

A mark `[i]` names the i-th passage, numbered from 1. What a reply cites beyond that is for the
program to drop.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"(\s*)\[(\d+(?:\s*[,;]\s*\d+)*)\]")


def within(answer: str, n: int) -> tuple[str, int]:
    """`answer` without marks of passages beyond the first `n`, and how many such marks there were.

    A mark of several passages, `[1, 2]`, becomes one for each.
    """
    wrong = 0

    def kept(found: re.Match[str]) -> str:
        nonlocal wrong
        numbers = [int(number) for number in re.findall(r"\d+", found[2])]
        inside = [number for number in numbers if 1 <= number <= n]
        wrong += len(numbers) - len(inside)
        return found[1] + "".join(f"[{number}]" for number in inside) if inside else ""

    return _MARK.sub(kept, answer).strip(), wrong
