"""Finished trials: what was tried, how it scored question by question, and which one is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.counters import Counters
from ragc.metrics import Metric
from ragc.optimizers.evaluation import Row
from ragc.optimizers.racing import standing
from ragc.optimizers.suggest import Candidate

Scores = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric with the sign that makes more of it better."""

    metric: Metric
    sign: int

    def of(self, scores: Scores) -> float:
        """The signed score of one question; a metric that does not apply counts 0."""
        return self.sign * (scores.get(self.metric.id) or 0.0)


@dataclass(frozen=True, slots=True)
class Tried:
    """One finished trial.

    `scores` are those of the dev questions seen, in the study's order. `complete` is False when
    racing stopped it early. `values` are told to Optuna, one an objective: means over the dev
    questions, or the estimate of them for a stopped trial.
    """

    number: int
    candidate: Candidate
    scores: tuple[Scores, ...]
    values: tuple[float, ...]
    complete: bool
    counters: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {
            "number": self.number,
            "candidate": self.candidate.to_json(),
            "scores": [dict(s) for s in self.scores],
            "values": list(self.values),
            "complete": self.complete,
            "counters": dict(self.counters),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Tried:
        """The trial that `to_json` described."""
        return cls(
            int(value["number"]),
            Candidate.of(value["candidate"]),
            tuple(value["scores"]),
            tuple(float(v) for v in value["values"]),
            bool(value["complete"]),
            dict(value["counters"]),
        )

    def series(self, objective: Objective) -> list[float]:
        """The signed scores of `objective`, question by question."""
        return [objective.of(scores) for scores in self.scores]


def finished(
    number: int,
    candidate: Candidate,
    rows: Sequence[Row],
    objectives: Sequence[Objective],
    incumbent: Tried | None,
    *,
    complete: bool,
) -> Tried:
    """The trial that ended with `rows`.

    A stopped trial is told as the incumbent's mean plus its paired difference on the questions seen.
    """
    scores = tuple(row.scores for row in rows)
    cost = Counters()
    for row in rows:
        cost.merge(row.spent)
    values = []
    for objective in objectives:
        mine = [objective.of(s) for s in scores]
        mean = sum(mine) / len(mine)
        if not complete and incumbent is not None:
            mean = standing(mine, incumbent.series(objective))
        values.append(mean)
    return Tried(number, candidate, scores, tuple(values), complete, cost.invariant())


def best(trials: Sequence[Tried]) -> Tried:
    """The winner: the highest first value among complete trials.

    Ties go to fewer tokens a question, then to the earlier trial.
    """

    def rank(trial: Tried) -> tuple[float, float, int]:
        tokens = trial.counters.get("prompt_tokens", 0) + trial.counters.get("completion_tokens", 0)
        return (-trial.values[0], tokens, trial.number)

    return min((t for t in trials if t.complete), key=rank)
