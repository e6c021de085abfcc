"""GEPA: evolves instructions by reflecting on failures, with a Pareto front over dev questions.

Paper: Agrawal et al. 2025, arXiv:2507.19457. The optimizer is DSPy's, on the `gepa` package.
Differs: it stops after as many answered questions as `search.trials` full evaluations on dev take.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.optimizers.candidates.instructions.feedback import feedback
from ragc.optimizers.harness.base import Harness
from ragc.optimizers.harness.monitor import SearchMonitor
from ragc.programs.base import RagProgram
from ragc.task.answering import text_of


def search(bench: Harness, student: RagProgram, watch: SearchMonitor) -> RagProgram:
    """Returns the program with the instructions that GEPA evolves from those of `student`. Blocks."""
    task = bench.task
    best = bench.best

    def metric(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        """Returns the objective; if GEPA names a predictor, with feedback for the reflecting model."""
        score = bench.metric(gold, pred)
        if pred_name is None:
            return score
        comment = feedback(
            bench.questions[gold.id],
            text_of(pred),
            student.shown_passages(pred),
            score=score - bench.offset,
            best=best,
            metric=bench.objective.metric.id,
            events=pred.trace,
            call=pred_name,
        )
        return dspy.Prediction(score=score, feedback=comment)

    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=(task.trials + 1) * len(bench.dev),
        reflection_lm=bench.teacher,
        num_threads=task.in_flight,
        perfect_score=best + bench.offset,
        seed=task.seed,
    )
    program: RagProgram = optimizer.compile(student, trainset=bench.train, valset=bench.dev)
    return program
