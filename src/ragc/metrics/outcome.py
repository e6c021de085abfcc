"""What is scored, and what scores it: `Outcome` and `Metric`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragc.records import Passage, Question

Unit = Literal["share", "count", "usd", "seconds"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question answered: what came out, what would have been right, what it cost.

    `prediction` is None when the program gave no answer. `retrieved` holds the ids of whole passages,
    best first: the chunk `p#3` stands as its parent `p`, and an id may appear more than once. `gold_ids`
    is empty when the data set names no supporting passages. `counters` may hold `lm_calls`, `tokens`,
    `usd`, `latency` (seconds) and `searches`; an absent one was not measured. `extra` is for metrics
    that need more than this, under keys that their family documents.
    """

    prediction: str | None
    answers: tuple[str, ...] = ()
    retrieved: tuple[str, ...] = ()
    gold_ids: tuple[str, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict, hash=False)
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        question: Question,
        prediction: str | None,
        passages: Iterable[Passage] = (),
        counters: Mapping[str, float] | None = None,
    ) -> Outcome:
        """The outcome of `question`; `passages` are best first and are reduced to their parents."""
        return cls(
            prediction=prediction,
            answers=question.answers,
            retrieved=tuple(passage.parent for passage in passages),
            gold_ids=question.gold_ids,
            counters=counters or {},
            extra=question.extra,
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """A named way to score one outcome.

    `score` returns a finite number, or None where the metric does not apply to the question (no gold
    passages, a counter that was not measured); None is left out of means and counted. A "share" lies
    in 0..1; other units start at 0 and have no upper bound.
    """

    id: str
    about: str
    unit: Unit
    higher_is_better: bool
    score: Callable[[Outcome], float | None]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and greatest score there can be, or None when there is no greatest."""
        return (0.0, 1.0) if self.unit == "share" else None
