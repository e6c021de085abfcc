"""Sources of passages that tests of several programs search."""

from __future__ import annotations

from ragc.records import Passage
from ragc.testing import ListSource


def numbered_source(prefix: str, n: int, text: str = "text") -> ListSource:
    """Returns a source of `n` passages whose ids, titles and texts end in `prefix` and a number."""
    return ListSource(numbered_passages(prefix, n, text))


def numbered_passages(prefix: str, n: int, text: str = "text") -> list[Passage]:
    """Returns the passages of `numbered_source`."""
    return [Passage(f"{prefix}{i}", f"Title {prefix}{i}", f"{text} {prefix}{i}") for i in range(n)]
