"""Checks that the optimizers of a recipe have what they need; nothing is sent."""

from __future__ import annotations

from ragc.optimizers.search.portfolio import parts_of
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.task.base import Task


def check_optimizers(task: Task) -> None:
    """Raises UsageError for an optimizer of `task` that lacks something it needs; nothing is sent."""
    several = not isinstance(task.recipe.search.optimizer, str)
    for part in parts_of(task) if several or task.recipe.search.optimizer != OWN_OPTIMIZER else ():
        if part.optimizer != OWN_OPTIMIZER:
            from ragc.optimizers.external.optimize import check

            check(part.optimizer, part.task)
