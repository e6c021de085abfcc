"""Scoring: `Outcome`, `Metric`, the `Finding` of a grader, and the `Scorer` of several metrics.

A finding is the verdict of a judge, a model or a rule that some metrics need.

    Outcome ──► Grader of each family that a metric reads ──► Finding(value, backend) ──► Metric.score

A grader runs once per question, for all metrics of its family. It is not part of the scored program: its cost
is counted separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ragc.core.counters import Counters, counting
from ragc.core.extras import require
from ragc.errors import MetricFailure, RagcError, RequestRefused, TargetUnavailable, UsageError
from ragc.records import Passage, Question

if TYPE_CHECKING:
    from ragc.metrics.settings import GraderSettings

Unit = Literal["share", "balance", "score", "count", "usd", "seconds"]

Bounds = tuple[float, float]

_BOUNDS: dict[str, Bounds] = {"share": (0.0, 1.0), "balance": (-1.0, 1.0)}

ANY: Bounds = (-math.inf, math.inf)
"""The bounds of scores that may be any number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A grader's result for one outcome: a JSON value, and its origin.

    `backend` names the judge, model or rule, and is printed in every report: scores from different backends
    cannot be compared. `failure` is the error of a request that failed, so that there is no verdict.
    """

    value: Any
    backend: str
    failure: RagcError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answered question: the prediction, the gold answers, and the cost.

    `prediction` is None when the program gave no answer. `retrieved` holds the ids of whole passages, best
    first: the chunk `p#3` counts as its parent `p`, and an id may appear more than once. `passages` are those
    shown to the last call, in the order that marks such as [1] count. `candidates` are the answers that the
    program chose among, empty for one that has no choice. `gold_ids` is empty when the data set names no
    supporting passages. `counters` may hold `lm_calls`, `tokens`, `usd`, `latency` (seconds) and `searches`;
    an absent one was not measured. `extra` is for metrics that need more than this, under keys that their
    family documents. `findings` holds the results of graders by family (`ragc.metrics.base`).

    `output` is the whole `dspy.Prediction` of the program, `example` the question as DSPy's example, None
    where there is none. `steps` is DSPy's trace of the run, where it is asked whether it may be a
    demonstration; else None.
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
    candidates: tuple[str, ...] = ()
    findings: Mapping[str, Finding] = field(default_factory=dict, hash=False)
    output: Any = field(default=None, compare=False, repr=False)
    example: Any = field(default=None, compare=False, repr=False)
    steps: Sequence[Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        question: Question,
        prediction: str | None,
        passages: Iterable[Passage] = (),
        counters: Mapping[str, float] | None = None,
        candidates: Iterable[str] = (),
        output: Any = None,
        steps: Sequence[Any] | None = None,
    ) -> Outcome:
        """Returns the outcome of `question`; `passages` are best first and are reduced to their parents."""
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
            candidates=tuple(candidates),
            output=output,
            example=question.example,
            steps=steps,
        )

    def finding(self, family: str) -> Any:
        """Returns the finding for `family`; raises UsageError when there is none."""
        if family not in self.findings:
            raise UsageError(
                f"Metrics of the family {family!r} need an assessor's finding, and this outcome has none; "
                "score it through ragc eval, or assess it first (ragc.metrics.base)."
            )
        return self.findings[family].value


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score of one outcome.

    `score` returns a finite number, or None if the metric does not apply to the question (no gold passages,
    an unmeasured counter). None is excluded from means, and counted. A "share" lies in 0..1, a "balance" in
    -1..1, a "score" is any number; other units start at 0 and have no upper bound. `reads` is the family of
    findings that `score` needs, "" for none.

    For metrics that are not a mean over questions, the value is `combine` of the means of the metrics
    `pools`, in their order.
    """

    id: str
    about: str
    unit: Unit
    higher_is_better: bool
    score: Callable[[Outcome], float | None]
    reads: str = ""
    pools: tuple[str, ...] = ()
    combine: Callable[..., float] | None = None
    modules: tuple[str, ...] = ()
    text: bool = False

    @property
    def bounds(self) -> Bounds | None:
        """The least and greatest possible score, or None without an upper bound."""
        return _BOUNDS.get(self.unit)

    def bounds_of(self, scores: Iterable[float | None]) -> Bounds | None:
        """Returns `bounds`; of a "score" 0 and 1 while no one of `scores` lies outside, else `ANY`."""
        if self.unit != "score":
            return self.bounds
        shares = all(score is None or -1e-9 <= score <= 1 + 1e-9 for score in scores)  # 1e-9 for rounding
        return _BOUNDS["share"] if shares else ANY


Scores = Mapping[str, float | None]


AS_JUDGED = "as this judge sees it"
"""What follows a verdict that rests on a language model's judgement and on no label of a person."""


def is_judge(backend: str) -> bool:
    """Returns whether `backend`, that of a finding, is a language model that judges."""
    return backend.startswith("judge ")


UNMEASURED = 1e12
"""The score of a question with unmeasured cost: larger than any real cost, and finite, as Optuna requires."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric with the sign that makes larger values better."""

    metric: Metric
    sign: int

    @property
    def name(self) -> str:
        """The name in a recipe: prefixed with `-` for a metric to minimize."""
        return self.metric.id if self.sign > 0 else f"-{self.metric.id}"

    def best_of(self, values: Iterable[float]) -> float | None:
        """Returns the greatest possible signed score of a question; None without an upper bound.

        Of a "score" it is 1 while none of the signed `values` says otherwise.
        """
        bounds = self.metric.bounds_of(self.sign * value for value in values)
        if self.sign < 0:
            return -bounds[0] if bounds else 0.0
        return bounds[1] if bounds not in (None, ANY) else None

    def to_metric(self, value: float) -> float:
        """Returns the metric's value for a signed `value`."""
        return self.sign * value + 0.0  # avoids -0.0

    def of(self, scores: Scores) -> float:
        """Returns the signed score of one question; a missing score is never a good one.

        A metric that does not apply counts as 0 where larger is better, and as its worst value where smaller
        is: `UNMEASURED` for a cost, so that a mean that includes it is never below a measured one.
        """
        score = scores.get(self.metric.id)
        if score is None and self.sign < 0:
            score = self.metric.bounds[1] if self.metric.bounds else UNMEASURED
        return self.sign * (score or 0.0)


class JudgeCall(Protocol):
    """A typed call of the judge: outputs by name, validated against the signature.

    `name` is the judge's name in reports. Raises ParseFailure when no reply can be read, TargetError and its
    subclasses when the endpoint fails.
    """

    @property
    def name(self) -> str:
        """The name of the judge's model."""
        ...

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        """Returns the outputs of `signature`, a DSPy signature class, for `inputs`."""
        ...


Pair = tuple[str, str]
"""A premise (the given text) and a hypothesis (the statement that may follow from it)."""

Verdict = bool | None
"""Whether the premise entails the hypothesis; None for an unreadable verdict, which counts as no."""


class Entailer(Protocol):
    """Decides which premises entail their hypotheses."""

    @property
    def name(self) -> str:
        """The backend and every setting that affects a verdict, as printed in reports."""
        ...

    async def entails(self, pairs: Sequence[Pair], /) -> Sequence[Verdict]:
        """Returns a verdict for each of `pairs`, in order. Pairs must be distinct.

        Raises RagcError when the model cannot be loaded, run or reached.
        """
        ...


class Grader(Protocol):
    """Produces the findings that the metrics of one family read."""

    @property
    def family(self) -> str:
        """The family, as metrics name it in `reads`."""
        ...

    @property
    def backend(self) -> str:
        """The origin of the findings, such as "lexical" or "judge openai/gpt-4o-mini, prompt ragx"."""
        ...

    async def assess(self, outcome: Outcome) -> Any:
        """Returns the finding for `outcome`, a JSON value; raises RagcError when it cannot be determined."""
        ...


@dataclass(frozen=True, slots=True)
class GraderKind:
    """The record of the grader of a family of metrics.

    `build` makes it from the settings of a recipe, the judge (None without one) and the maker of the one
    backend that decides entailment. `asks` says what asks the judge under given settings: the setting, "" for
    the metrics of the family themselves, None for nothing. `calls` bounds the typed calls of the judge for
    one question; infinite where they depend on the length of the answer. `entails` is set where entailment is
    decided.
    """

    family: str
    build: Callable[[GraderSettings, JudgeCall | None, Callable[[], Entailer]], Grader]
    asks: Callable[[GraderSettings], str | None] = lambda settings: None
    calls: Callable[[GraderSettings, Question], float] = lambda settings, question: 0
    entails: bool = False


async def grade(outcome: Outcome, graders: Iterable[Grader]) -> Outcome:
    """Returns `outcome` with the finding of every grader, {"by": "failed"} where a request of it failed.

    Where a function of the user's gave no score, the finding is 0.
    """
    findings = dict(outcome.findings)
    for grader in graders:
        try:
            findings[grader.family] = Finding(await grader.assess(outcome), grader.backend)
        except (RequestRefused, TargetUnavailable) as error:
            findings[grader.family] = Finding({"by": "failed", "why": str(error)}, grader.backend, error)
        except MetricFailure as error:
            findings[grader.family] = Finding(0.0, grader.backend, error)
    return replace(outcome, findings=findings)


def library(module: str, what: str) -> Any:
    """Returns the imported `module`, which `what` needs. Raises UsageError when it is not installed."""
    require(module.partition(".")[0], what)
    return import_module(module)


def incomplete(metric: Metric, like: str) -> Metric:
    """Returns `metric` for listings alone: scoring raises UsageError, which names one to write, `like`."""

    def refuse(outcome: Outcome) -> float | None:
        raise UsageError(f"{metric.id} scores nothing until it is named in full, as in {like}.")

    return replace(metric, score=refuse)


def families(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """Returns the families that `metrics` read, without duplicates, in order."""
    return tuple(dict.fromkeys(metric.reads for metric in metrics if metric.reads))


@dataclass(frozen=True, slots=True)
class OutcomeScores:
    """The scores of one outcome by metric id; None if a metric does not apply, or its judge failed.

    `findings` are the findings by family, `cost` their cost (amounts by name, empty without calls). It is the
    judge's cost, not the program's. `failure` is an error of the judge's endpoint, None without one.
    """

    scores: Mapping[str, float | None]
    findings: Mapping[str, Finding] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    failure: RagcError | None = None


@dataclass(frozen=True, slots=True)
class Scorer:
    """`metrics`, and a grader for each family that they read.

    Raises UsageError when a grader is missing.
    """

    metrics: tuple[Metric, ...]
    assessors: Mapping[str, Grader] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for family in families(self.metrics):
            if family not in self.assessors:
                asking = ", ".join(m.id for m in self.metrics if m.reads == family)
                raise UsageError(f"{asking} need findings of the family {family!r}, and nothing makes them.")

    @classmethod
    def of(cls, *metrics: Metric) -> Scorer:
        """Returns a scorer of metrics that need no findings."""
        return cls(metrics)

    def only(self, metrics: Sequence[Metric]) -> Scorer:
        """Returns the same scorer for some of its metrics."""
        needed = families(metrics)
        return Scorer(tuple(metrics), {name: a for name, a in self.assessors.items() if name in needed})

    @property
    def backends(self) -> dict[str, str]:
        """The backend of each family's findings."""
        return {family: self.assessors[family].backend for family in families(self.metrics)}

    async def score(self, outcome: Outcome) -> OutcomeScores:
        """Returns the scores of `outcome`, None where a request of the judge failed.

        Raises RagcError when a finding cannot be determined for another reason.
        """
        needed = [self.assessors[family] for family in families(self.metrics)]
        with counting(Counters()) as cost:
            graded = await grade(outcome, needed)
        failed = {family: finding.failure for family, finding in graded.findings.items() if finding.failure}
        unknown = [family for family, error in failed.items() if not isinstance(error, MetricFailure)]
        scores = {m.id: None if m.reads in unknown else m.score(graded) for m in self.metrics}
        spent = {name: amount for name, amount in cost.to_json().items() if amount}
        first = min(failed.values(), key=lambda error: isinstance(error, MetricFailure), default=None)
        return OutcomeScores(scores, graded.findings, spent, first)
