"""`upper_bound@METRIC`: the best score of any answer that a program chose among.

It says what the choice could gain if it were always right. METRIC is a metric of texts such as `f1`; with
one of 0 and 1 the figure is the share of questions for which any answer is right. A program without a choice
has one answer, and its score is the bound.

Paper: RQ-RAG (Chan et al. 2024, arXiv:2404.00610), section 4.3; its code takes the greatest F1 of all
trajectories for multi-hop questions and any right one for the others.
"""

from __future__ import annotations

from dataclasses import replace

from ragc.metrics.base import Metric, Outcome, incomplete

NAME = "upper_bound"


def of(metric: Metric) -> Metric:
    """Returns the upper bound of `metric`, which scores texts."""

    def best(outcome: Outcome) -> float | None:
        candidates = outcome.candidates or (outcome.prediction,)
        scores = (metric.score(replace(outcome, prediction=candidate)) for candidate in candidates)
        return max((score for score in scores if score is not None), default=None)

    about = f"the best of all answers that the program chose among: {metric.about}"
    return Metric(f"{NAME}@{metric.id}", about, metric.unit, True, best, modules=metric.modules)


METRICS = (
    incomplete(
        Metric(
            f"{NAME}@metric",
            "the best score by a metric of texts of any answer that the program chose among",
            "share",
            True,
            lambda outcome: None,
        ),
        f"{NAME}@f1",
    ),
)
