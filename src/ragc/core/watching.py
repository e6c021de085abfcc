"""Who watches what a question does beside its typed calls and searches; nobody, as a rule."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol


class Watcher(Protocol):
    """Takes note of work that is no event of a trace. It raises nothing."""

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """The reranker `model` gave `passages` these `scores` for `query`, from `begun` (ns) until now."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ragc_watcher", default=None)
"""Who watches the question of this context."""
