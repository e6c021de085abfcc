"""What is scored, and what scores it: `Outcome` and `Metric`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragc.errors import UsageError
from ragc.records import Passage, Question

Unit = Literal["share", "balance", "count", "usd", "seconds"]

_BOUNDS: dict[str, tuple[float, float]] = {"share": (0.0, 1.0), "balance": (-1.0, 1.0)}


@dataclass(frozen=True, slots=True)
class Finding:
    """What an assessor found out about one outcome: a JSON value, and what it came from.

    `backend` names the judge, model or rule, as every report prints it: figures of different backends
    cannot be compared.
    """

    value: Any
    backend: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question answered: what came out, what would have been right, what it cost.

    `prediction` is None when the program gave no answer. `retrieved` holds the ids of whole passages,
    best first: the chunk `p#3` stands as its parent `p`, and an id may appear more than once. `passages`
    are those shown to the last call, in the order that marks such as [1] count. `gold_ids`
    is empty when the data set names no supporting passages. `counters` may hold `lm_calls`, `tokens`,
    `usd`, `latency` (seconds) and `searches`; an absent one was not measured. `extra` is for metrics
    that need more than this, under keys that their family documents. `found` holds, by family, what an
    assessor found out (`ragc.metrics.assessing`).
    """

    prediction: str | None
    answers: tuple[str, ...] = ()
    retrieved: tuple[str, ...] = ()
    gold_ids: tuple[str, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict, hash=False)
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    question: str = ""
    query_time: str = ""
    passages: tuple[Passage, ...] = ()
    found: Mapping[str, Finding] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        question: Question,
        prediction: str | None,
        passages: Iterable[Passage] = (),
        counters: Mapping[str, float] | None = None,
    ) -> Outcome:
        """The outcome of `question`; `passages` are best first and are reduced to their parents."""
        shown = tuple(passages)
        return cls(
            prediction=prediction,
            answers=question.answers,
            retrieved=tuple(passage.parent for passage in shown),
            gold_ids=question.gold_ids,
            counters=counters or {},
            extra=question.extra,
            question=question.question,
            query_time=question.query_time,
            passages=shown,
        )

    def finding(self, family: str) -> Any:
        """The value found for `family`; raises UsageError when nothing was assessed."""
        if family not in self.found:
            raise UsageError(
                f"Metrics of the family {family!r} need an assessor's finding, and this outcome has none; "
                "score it through ragc eval, or assess it first (ragc.metrics.assessing)."
            )
        return self.found[family].value


@dataclass(frozen=True, slots=True)
class Metric:
    """A named way to score one outcome.

    `score` returns a finite number, or None where the metric does not apply to the question (no gold
    passages, a counter that was not measured); None is left out of means and counted. A "share" lies
    in 0..1, a "balance" in -1..1; other units start at 0 and have no upper bound. `reads` is the family
    of findings that `score` needs, "" when it needs none.

    Where the figure of many questions is not the mean of theirs, it is `combine` of the means of the
    metrics `pools`, in their order.
    """

    id: str
    about: str
    unit: Unit
    higher_is_better: bool
    score: Callable[[Outcome], float | None]
    reads: str = ""
    pools: tuple[str, ...] = ()
    combine: Callable[..., float] | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and greatest score there can be, or None when there is no greatest."""
        return _BOUNDS.get(self.unit)
