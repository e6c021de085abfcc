"""MIPROv2: proposed instructions and bootstrapped demonstrations, combined by Bayesian search.

Paper: Opsahl-Ong et al. 2024, arXiv:2406.11695. The optimizer is DSPy's own.
Differs: the proposer reads the program's description and code, not the source of ragc's predictor class. All
else is DSPy's, including small batches of dev questions for large dev splits.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.optimizers.candidates.instructions.grounding import build_proposer
from ragc.optimizers.harness.base import UNLIMITED, Harness
from ragc.optimizers.harness.monitor import SearchMonitor
from ragc.programs.base import RagProgram

WHOLE_DEV = 50
"""The most dev questions for full evaluations. Above it DSPy chooses batches of 35."""


class _Mipro(dspy.MIPROv2):
    """MIPROv2 with a proposer that knows ragc's programs."""

    def _propose_instructions(
        self, program: Any, trainset: Any, demo_candidates: Any, *_: Any, num_instruct_candidates: int
    ) -> dict[int, list[str]]:
        """As in MIPROv2: the instructions of each predictor by its index, the present ones first."""
        proposer = build_proposer(self.prompt_model, program, trainset, rng=self.rng)
        instructions: dict[int, list[str]] = proposer.propose_instructions_for_program(
            trainset=trainset,
            program=program,
            demo_candidates=demo_candidates,
            trial_logs={},
            N=num_instruct_candidates,
        )
        for at, predictor in enumerate(program.predictors()):
            instructions[at][0] = predictor.signature.instructions
        return instructions


def search(bench: Harness, student: RagProgram, watch: SearchMonitor) -> RagProgram:
    """Returns the program that MIPROv2 makes of `student` in `search.trials` trials. Blocks.

    Without `search.demos` it only searches instructions. The number of candidates a predictor is
    `search.instructions`, or else derived from the number of trials.
    """
    task = bench.task
    demos, trials = task.recipe.search.demos, task.trials
    candidates = task.recipe.search.instructions or min(6, max(3, round(trials / 1.5)))
    optimizer = _Mipro(
        metric=bench.metric,
        prompt_model=bench.teacher,
        task_model=bench.teacher,
        auto=None,
        num_candidates=max(2, candidates),
        num_threads=task.in_flight,
        max_errors=UNLIMITED,
        max_bootstrapped_demos=demos,
        max_labeled_demos=demos,
        seed=task.seed,
        track_stats=False,
    )
    compiled: Any = optimizer.compile(
        student,
        trainset=bench.train,
        valset=bench.dev,
        num_trials=trials,
        minibatch=len(bench.dev) > WHOLE_DEV,
    )
    best: RagProgram = compiled
    return best
