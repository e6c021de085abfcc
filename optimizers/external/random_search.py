"""Random search over bootstrapped demonstrations.

Paper: Khattab et al. 2023, arXiv:2310.03714. The optimizer is DSPy's BootstrapFewShotWithRandomSearch.
Differs: train questions come in an order drawn with the recipe's seed, because DSPy uses fixed seeds.
"""

from __future__ import annotations

import dspy

from ragc.errors import UsageError
from ragc.optimizers.harness.base import UNLIMITED, Harness
from ragc.optimizers.harness.monitor import SearchMonitor
from ragc.programs.base import RagProgram
from ragc.task.base import Task

ALWAYS = 2
"""Programs that DSPy tries beside the random ones: labelled and unshuffled bootstrapped demonstrations."""


def max_shown_demos(task: Task) -> int:
    """Returns the most demonstrations of a prompt. Raises UsageError if it is 0: there is nothing to
    search.
    """
    if not (demos := task.recipe.search.demos):
        raise UsageError(
            "The optimizer 'random' searches demonstrations and search.demos is 0; set it to the most that a "
            "prompt may show, such as 3."
        )
    return demos


def search(bench: Harness, student: RagProgram, watch: SearchMonitor) -> RagProgram:
    """Returns the best of `search.trials` programs with random demonstrations, and of `student` without any.
    Blocks.

    Raises UsageError if `search.demos` is 0.
    """
    task = bench.task
    demos = max_shown_demos(task)
    randoms = max(0, task.trials - ALWAYS)
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=bench.metric,
        max_bootstrapped_demos=demos,
        max_labeled_demos=demos,
        num_candidate_programs=randoms,
        num_threads=task.in_flight,
        max_errors=UNLIMITED,
    )
    only = [-3, -1] if task.trials == 1 else None
    program: RagProgram = optimizer.compile(student, trainset=bench.train, valset=bench.dev, restrict=only)
    return program
