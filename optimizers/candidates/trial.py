"""Finished trials: their candidates and their scores by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragc.core.counters import Counters
from ragc.core.display import describe, quantity
from ragc.errors import StoreError, UsageError
from ragc.metrics.base import UNMEASURED, Objective, Scores
from ragc.metrics.failures import Failures
from ragc.metrics.stats.groups import run_lengths
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.task.answering import Row, failures_of, groups_of

BATCH = "batch:"
"""The prefix of the study attributes that store trials, one attribute a batch."""


NONE = Failures()


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One finished trial.

    `scores` are those of the dev questions seen, in the study's order; `failures` counts the unanswered ones.
    `complete` is False while questions are left, and for a trial that was stopped early. `values` are the
    signed means over the questions seen, one an objective. `estimates` are what Optuna learns from: for a
    trial that is not complete the means of its rival, or else the baseline, plus the paired differences,
    which may lie outside a metric's bounds. `groups` are the sizes of the groups of the questions seen, in
    their order; () for independent questions.
    """

    number: int
    candidate: Candidate
    scores: tuple[Scores, ...]
    values: tuple[float, ...]
    complete: bool
    counters: Mapping[str, float]
    failures: Failures = NONE
    estimates: tuple[float, ...] = ()
    groups: tuple[int, ...] = ()
    _series: dict[str, list[float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        candidate = self.candidate
        shown = {
            "values": ", ".join(f"{value:.3f}" for value in self.values),
            "questions": len(self.scores),
            "stopped": None if self.complete else "early",
            "failures": self.failures.n or None,
            **candidate.knobs,
        }
        choices = describe_candidate(candidate, {}, program=candidate.program)
        return describe(type(self).__name__, self.number, choices, **shown)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; `of` is the inverse."""
        return {
            "number": self.number,
            "candidate": self.candidate.to_json(),
            "scores": [dict(s) for s in self.scores],
            "values": list(self.values),
            "complete": self.complete,
            "counters": dict(self.counters),
            "failures": self.failures.to_json(),
            "estimates": list(self.estimates),
            **({"groups": list(self.groups)} if self.groups else {}),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> TrialResult:
        """Returns the inverse of `to_json`."""
        return cls(
            int(value["number"]),
            Candidate.of(value["candidate"]),
            tuple(value["scores"]),
            tuple(float(v) for v in value["values"]),
            bool(value["complete"]),
            dict(value["counters"]),
            Failures.from_json(value["failures"]),
            tuple(float(v) for v in value["estimates"]),
            tuple(int(size) for size in value.get("groups", ())),
        )

    def extended(
        self, block: TrialResult, baseline: TrialResult, objectives: Sequence[Objective], questions: int
    ) -> TrialResult:
        """Returns the trial after the questions of `block`. It is complete when it saw all `questions`."""
        scores = (*self.scores, *block.scores)
        complete = len(scores) >= questions
        series = [[objective.of(s) for s in scores] for objective in objectives]
        values = tuple(sum(mine) / len(mine) for mine in series)
        pairs = zip(series, objectives, strict=True)
        estimates = values
        if not complete:
            estimates = tuple(estimated_mean(mine, baseline.series(objective)) for mine, objective in pairs)
        names = {**self.counters, **block.counters}
        counters = {name: self.counters.get(name, 0) + block.counters.get(name, 0) for name in names}
        failures = self.failures + block.failures
        return TrialResult(
            self.number, self.candidate, scores, values, complete, counters, failures, estimates,
            _joined_groups(self, block),
        )  # fmt: skip

    def without_answers(self) -> TrialResult:
        """Returns the trial as it was before its first question."""
        return replace(self, scores=(), counters={}, failures=NONE, groups=())

    @property
    def remarks(self) -> str:
        """Text to show beside the values: the questions seen, if not all, and failures."""
        part = "" if self.complete else f", after {quantity(len(self.scores), 'question')}"
        return part + (f"; {self.failures.text}" if self.failures.n else "")

    @property
    def tokens(self) -> float:
        """All prompt and completion tokens of the trial, replayed calls included."""
        return self.counters.get("prompt_tokens", 0) + self.counters.get("completion_tokens", 0)

    def series(self, objective: Objective) -> list[float]:
        """Returns the signed scores of `objective`, by question, which are computed once."""
        if objective.name not in self._series:
            self._series[objective.name] = [objective.of(scores) for scores in self.scores]
        return self._series[objective.name]

    @property
    def n_independent(self) -> int:
        """The number of groups seen, or of questions where these are independent."""
        return len(self.groups) or len(self.scores)

    def independent(self, objective: Objective) -> list[float]:
        """Returns the signed scores of `objective` that are independent: of groups their means, else of
        questions.

        A group with a question whose cost was not measured counts as not measured.
        """
        series, means, first = self.series(objective), list[float](), 0
        if not self.groups:
            return series
        for size in self.groups:
            part = series[first : first + size]
            means.append(next((score for score in part if abs(score) >= UNMEASURED), sum(part) / size))
            first += size
        return means


def _joined_groups(first: TrialResult, then: TrialResult) -> tuple[int, ...]:
    """Returns the sizes of the groups of both, where any has several questions; `then` begins with another
    group.
    """
    if not (first.groups or then.groups):
        return ()
    sizes = [trial.groups or (1,) * len(trial.scores) for trial in (first, then)]
    return (*sizes[0], *sizes[1])


def result_of(
    number: int,
    candidate: Candidate,
    rows: Sequence[Row],
    objectives: Sequence[Objective],
    beaten_by: TrialResult | None,
) -> TrialResult:
    """Returns the result of a trial that ended with `rows`.

    `beaten_by` is the rival that stopped it, None for a complete trial. The estimates of a stopped trial are
    the rival's means plus its paired differences on the questions seen.
    """
    scores = tuple(row.scores for row in rows)
    cost = Counters()
    for row in rows:
        cost.merge(row.total_cost)
    series = [[objective.of(s) for s in scores] for objective in objectives]
    means = tuple(sum(mine) / len(mine) for mine in series)
    estimates = means
    if beaten_by is not None:
        pairs = zip(series, objectives, strict=True)
        estimates = tuple(estimated_mean(mine, beaten_by.series(objective)) for mine, objective in pairs)
    return TrialResult(
        number,
        candidate,
        scores,
        means,
        beaten_by is None,
        cost.invariant(),
        failures_of(rows),
        estimates,
        run_lengths(groups_of(rows)),
    )


def read_results(attributes: Mapping[str, Any]) -> list[tuple[int, TrialResult]]:
    """Returns the trials stored in a study's `attributes`, in order, each with its number in Optuna's
    storage.

    Of a trial that several batches continued, the last record counts. Raises StoreError when a value is no
    record of a trial.
    """
    try:
        names = sorted(name for name in attributes if name.startswith(BATCH))
        pairs = [(int(value["trial"]), TrialResult.of(value)) for name in names for value in attributes[name]]
        latest = {result.number: (number, result) for number, result in pairs}
        return [latest[number] for number in sorted(latest)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"The study holds something that is no record of a trial ({error!r}), as one of another "
            "version of ragc does; leave --resume out to begin anew, which replays what was answered."
        ) from error


def estimated_mean(trial_scores: Sequence[float], incumbent_scores: Sequence[float]) -> float:
    """Returns the mean that the sampler learns for a stopped trial: the incumbent's mean plus the mean paired
    difference so far.

    The incumbent's mean is over all its questions. Raises UsageError when the trial has no score, or more
    than the incumbent.
    """
    seen = len(trial_scores)
    if not seen or seen > len(incumbent_scores):
        raise UsageError(f"A standing needs 1 to {len(incumbent_scores)} trial scores, but got {seen}.")
    gained = (sum(trial_scores) - sum(incumbent_scores[:seen])) / seen
    return sum(incumbent_scores) / len(incumbent_scores) + gained
