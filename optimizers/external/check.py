"""Checks that the optimizer of a recipe has what it needs; nothing is sent."""

from __future__ import annotations

from ragc.recipe.values import OWN_OPTIMIZER
from ragc.task.base import Task


def check_optimizer(task: Task) -> None:
    """Raises UsageError if the optimizer of `task` lacks something it needs; nothing is sent."""
    optimizer = task.recipe.search.optimizer
    if optimizer != OWN_OPTIMIZER:
        from ragc.optimizers.external.optimize import check

        check(optimizer, task)
