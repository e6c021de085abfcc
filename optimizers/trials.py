"""Finished trials: what was tried, how it scored question by question, and which one is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.counters import Counters
from ragc.metrics import Metric
from ragc.optimizers.evaluation import Row
from ragc.optimizers.racing import standing
from ragc.optimizers.space import Candidate

Scores = Mapping[str, float | None]


UNMEASURED = 1e12
"""What a question counts whose cost was not measured: more than any costs, and finite, as Optuna needs it."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric with the sign that makes more of it better."""

    metric: Metric
    sign: int

    @property
    def name(self) -> str:
        """As a recipe writes it: `-` before what should be small."""
        return self.metric.id if self.sign > 0 else f"-{self.metric.id}"

    @property
    def best(self) -> float | None:
        """The greatest signed score that a question can get; None when there is no end to it."""
        bounds = self.metric.bounds
        if self.sign < 0:
            return -bounds[0] if bounds else 0.0
        return bounds[1] if bounds else None

    def of(self, scores: Scores) -> float:
        """The signed score of one question; one that is not there is never a good one.

        A metric that does not apply counts 0 where more is better, and its worst where less is: `UNMEASURED`
        for a cost, so that no mean with one in it is below one that was measured.
        """
        score = scores.get(self.metric.id)
        if score is None and self.sign < 0:
            score = self.metric.bounds[1] if self.metric.bounds else UNMEASURED
        return self.sign * (score or 0.0)


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

    @property
    def tokens(self) -> float:
        """All tokens of its calls, replayed or not."""
        return self.counters.get("prompt_tokens", 0) + self.counters.get("completion_tokens", 0)

    def series(self, objective: Objective) -> list[float]:
        """The signed scores of `objective`, question by question."""
        return [objective.of(scores) for scores in self.scores]


def finished(
    number: int,
    candidate: Candidate,
    rows: Sequence[Row],
    objectives: Sequence[Objective],
    victor: Tried | None,
) -> Tried:
    """The trial that ended with `rows`; `victor` is the trial that it cannot beat, None when it is complete.

    A stopped trial is told as the victor's mean plus its paired difference on the questions seen.
    """
    scores = tuple(row.scores for row in rows)
    cost = Counters()
    for row in rows:
        cost.merge(row.spent)
    values = []
    for objective in objectives:
        mine = [objective.of(s) for s in scores]
        mean = sum(mine) / len(mine)
        if victor is not None:
            mean = standing(mine, victor.series(objective))
        values.append(mean)
    return Tried(number, candidate, scores, tuple(values), victor is None, cost.invariant())


def best(trials: Sequence[Tried]) -> Tried:
    """The leader: the highest first value among complete trials; `winner` chooses what is compiled.

    Ties go to fewer tokens a question, then to the earlier trial.
    """

    def rank(trial: Tried) -> tuple[float, float, int]:
        return (-trial.values[0], trial.tokens, trial.number)

    return min((t for t in trials if t.complete), key=rank)
