"""The order of the dev questions, the same for all trials of a study."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ragc.metrics.stats.groups import run_lengths
from ragc.records import Question
from ragc.task.base import Task


def shuffle_dev(task: Task) -> list[Question]:
    """Returns the dev questions in the order that all trials of a study use; those of a group follow each
    other.
    """
    order = list(task.dev)
    shuffle = random.Random(f"dev {task.seed}").shuffle
    if not any(question.group for question in order):
        shuffle(order)
        return order
    together: dict[str, list[Question]] = {}
    for question in order:
        together.setdefault(f"group {question.group}" if question.group else f"id {question.id}", []).append(
            question
        )
    groups = list(together.values())
    shuffle(groups)
    return [question for group in groups for question in group]


def group_sizes(order: Sequence[Question]) -> tuple[int, ...]:
    """Returns the sizes of the groups of questions in their `order`; () for independent questions."""
    return run_lengths([question.group for question in order])


def dev_groups(task: Task) -> list[str]:
    """Returns the labels of the groups of the dev questions, in the order that all trials use."""
    return [question.group for question in shuffle_dev(task)]
