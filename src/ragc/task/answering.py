"""Runs a program over questions: many in flight, results in the order of the questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import dspy

from ragc.core.counters import IF_ANY, Counters, count
from ragc.core.display import describe, quantity
from ragc.core.event_loop import gather_or_cancel
from ragc.core.text import json_text
from ragc.errors import (
    OF_ONE_QUESTION,
    MetricFailure,
    ParseFailure,
    RagcError,
    RequestRefused,
    TargetStopped,
    TargetUnavailable,
    UsageError,
)
from ragc.metrics import Metric, Outcome
from ragc.metrics.base import Finding, OutcomeScores, Scorer
from ragc.metrics.failures import UNSCORED, Failures
from ragc.programs.base import FAILED, SEARCH, RagProgram
from ragc.programs.calls.demos import forced_outputs, plain
from ragc.programs.trace import Event, Note, by_part, whole_json
from ragc.records import Passage, Question

IN_A_ROW = 5
"""Failed questions in a row that end a run."""

NOTHING = Scorer(())
"""A scorer without metrics."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question answered and scored.

    `scores` has every metric; None if it does not apply, or its judge failed. `failure` is the reason for a
    missing prediction, and `failure_kind` its kind: "unreadable" (the reply), "filtered", "too long" or
    "failed" (the request); or for a missing score of the user's metric, "unscored". Such a question scores 0,
    or the worst score around it if that is below 0, and costs what was spent. `findings` are the metrics'
    findings by family, and `judging` is the cost of judging, which is no cost of the program. `seen` is the
    earlier use of a contaminated question, such as "dev"; "" for none. `steps` is DSPy's trace of the run,
    where demonstrations are collected.
    """

    question: Question
    prediction: str | None
    passages: tuple[Passage, ...]
    scores: Mapping[str, float | None]
    counters: Mapping[str, float]
    trace: tuple[Event, ...] = ()
    failure: str = ""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    judging: Mapping[str, float] = field(default_factory=dict)
    seen: str = ""
    failure_kind: str = ""
    steps: Sequence[Any] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        scores = {name: score for name, score in self.scores.items() if score is not None}
        shown = {"prediction": repr(self.prediction), "passages": len(self.passages), "failure": self.failure}
        return describe("Row", repr(self.question.question), **{**shown, **scores})

    @property
    def total_cost(self) -> Counters:
        """The total cost of the question: the program's calls and the judge's."""
        total = Counters()
        for amounts in (self.counters, self.judging):
            total.add(**{name: amounts.get(name, 0) for name in Counters.__slots__})
        return total

    def to_json(self, *, prompts: bool = False) -> dict[str, Any]:
        """Returns one row of `ragc eval --out`, JSON values only; that command sets `prompts`.

        With `prompts` calls have the messages and replies as they were sent, and hits a title and an excerpt.
        """
        return {
            "id": self.question.id,
            "question": self.question.question,
            "answers": list(self.question.answers),
            "prediction": self.prediction,
            "passages": [p.id for p in self.passages],
            "gold_ids": list(self.question.gold_ids),
            **({"group": self.question.group} if self.question.group else {}),
            "scores": dict(self.scores),
            "counters": {k: v for k, v in self.counters.items() if k != "latency"},
            "failure": self.failure,
            **({"failure_kind": self.failure_kind} if self.failure else {}),
            **({"seen": self.seen} if self.seen else {}),
            **(self._findings() if self.findings else {}),
            "trace": [whole_json(event) if prompts else event.to_json() for event in self.trace],
        }

    def _findings(self) -> dict[str, Any]:
        return {
            "backends": {family: finding.backend for family, finding in self.findings.items()},
            "found": {family: finding.value for family, finding in self.findings.items()},
            "judging": dict(self.judging),
        }


def was_replayed(row: Row) -> bool:
    """Returns whether all replies of `row` were stored by an earlier run."""
    return bool(row.counters.get("replayed")) and not row.counters.get("sent")


class Outage:
    """Ends a run where the endpoint is down, or refuses everything.

    `IN_A_ROW` questions failed, and none was answered in between, also from the store. Prompts that are
    filtered or too long say nothing of the endpoint.
    """

    def __init__(self) -> None:
        self.error: RagcError | None = None
        self._last: RagcError | None = None
        self._any_answered, self._failed, self._runs = False, 0, 0
        self._any_scored = False

    def __enter__(self) -> Outage:
        self._runs += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._runs -= 1
        if not self._runs and self.error is not None:
            self.error, self._failed = None, 0  # who begins again finds out anew

    def check(self) -> None:
        """Raises the error that ended the run: cancelled questions free their places to the next ones."""
        if self.error is not None:
            raise self.error

    def take(self, error: RagcError | None) -> None:
        """Takes the end of a question: its answer, or its error. Raises the error that ends the run."""
        if error is None or isinstance(error, MetricFailure | ParseFailure):
            self._any_answered, self._failed = True, 0
        elif isinstance(error, TargetStopped):
            self.error = error
        elif kind_of(error) == "failed":
            self._last, self._failed = error, self._failed + 1
            if self._failed == IN_A_ROW:
                self.error = _stopped(error, f"{IN_A_ROW} questions in a row failed and none was answered")
        self.check()

    def finish(self, questions: int) -> None:
        """Raises the last error where all of so many `questions` failed, and none was answered before."""
        if self._last is not None and not self._any_answered and self._failed >= questions:
            raise _stopped(self._last, "No question was answered")

    def check_scores(self, rows: Sequence[Row]) -> None:
        """Raises UsageError where the user's metric gave none of `rows` a score, and none before."""
        unscored = [row.failure for row in rows if row.failure_kind == UNSCORED]
        self._any_scored = self._any_scored or not all(row.failure for row in rows)
        if unscored and not self._any_scored:
            raise UsageError(
                f"{unscored[0].rstrip('.')}, as for all of the first {quantity(len(unscored), 'question')}; "
                "correct the metric."
            )


def _stopped(last: RagcError, why: str) -> TargetUnavailable:
    """Returns the error of a run that ends because of the error `last` of a question."""
    text = str(last).rstrip(".")
    return TargetUnavailable(
        f"{why}: {text}. Every reply is stored; run the same command again, a study with --resume.",
        endpoint=getattr(last, "endpoint", ""),
        request_id=getattr(last, "request_id", ""),
    )


_outages: WeakKeyDictionary[asyncio.Semaphore, Outage] = WeakKeyDictionary()


def outage_of(limit: asyncio.Semaphore) -> Outage:
    """Returns the outage of the run whose questions in flight `limit` bounds."""
    return _outages.setdefault(limit, Outage())


def kind_of(error: RagcError) -> str:
    """Returns the kind of failure that `error` is to its question, see `Row`."""
    if isinstance(error, MetricFailure):
        return UNSCORED
    if isinstance(error, ParseFailure):
        return "unreadable"
    return error.kind if isinstance(error, RequestRefused) else "failed"


OF_RAGC = frozenset({"passages", "trace", "counters", "tallies", "candidates"})
"""The fields of a prediction that are no outputs of the program."""


def text_of(reply: dspy.Prediction) -> str:
    """Returns the field `answer` of `reply`, or without one all outputs; as JSON unless it is a text."""
    outputs = {name: value for name, value in reply.items() if name not in OF_RAGC}
    return as_text(outputs if reply.get("answer") is None else reply["answer"])


def as_text(value: Any) -> str:
    """Returns `value` as it is if it is a text, else as JSON."""
    return value if isinstance(value, str) else json_text(plain({"": value})[""])


def outcome_of(
    program: RagProgram, question: Question, reply: dspy.Prediction, steps: Sequence[Any] | None = None
) -> Outcome:
    """Returns the outcome of `question` answered by `program` with `reply`; `steps` as in `Outcome`."""
    amounts = {**reply.counters, **by_part(reply.trace)}
    passages, candidates = program.shown_passages(reply), reply.get("candidates") or ()
    return Outcome.of(question, text_of(reply), passages, amounts, candidates, reply, steps)


async def answer(
    program: RagProgram,
    question: Question,
    scorer: Scorer = NOTHING,
    *,
    outage: Outage | None = None,
    traced: bool = False,
) -> Row:
    """Answers and scores one question.

    An unreadable reply is a wrong answer, and with an `outage` a failed request too, until it ends the run.
    Every other error is raised. With `traced` the metric is asked whether the run may be a demonstration.
    """
    failed: RagcError | None = None
    inputs = question.inputs
    if inputs is None:
        inputs = {"question": question.question, **question.context()}
    steps: list[Any] = []
    try:
        with dspy.context(trace=steps) if traced else nullcontext():
            reply = await program.acall(**inputs)
        outcome = outcome_of(program, question, reply, steps if traced else None)
        counters, events = dict(reply.counters), reply.trace
    except OF_ONE_QUESTION as error:
        if outage is None and not isinstance(error, ParseFailure):
            raise
        counters, events, failed = dict(error.counters), error.events, error
        if (kind := kind_of(error).replace(" ", "_")) in IF_ANY:
            count(**{kind: 1})
            counters[kind] = 1
        outcome = Outcome.of(question, None, (), {**counters, **by_part(events)})
    scored = await scorer.score(outcome) if scorer.metrics else OutcomeScores({})
    if outage is not None:
        outage.take(failed or scored.failure)
    if failed is None and isinstance(scored.failure, MetricFailure):
        failed = scored.failure
    return Row(
        question,
        outcome.prediction,
        outcome.passages,
        scored.scores,
        counters,
        events,
        str(failed or ""),
        scored.findings,
        scored.cost,
        failure_kind=kind_of(failed) if failed else "",
        steps=steps,
    )


async def evaluate(
    program: RagProgram,
    questions: Sequence[Question],
    scorer: Scorer,
    *,
    limit: asyncio.Semaphore,
    done: Callable[[], None] = lambda: None,
    keep: Callable[[Row], None] = lambda row: None,
    taught: bool = False,
    traced: bool = False,
) -> tuple[Row, ...]:
    """Answers and scores every question, in the given order, with at most `limit` in flight.

    Questions start in order, and `done` and `keep`, with the row, are called after each. A failed request is
    a row with a failure; where the endpoint is down (`Outage`), and of any other error, the first cancels the
    rest and is raised. With `taught` the first gold answer replaces the model's answer; calls before the
    answer are still made. `traced` is as in `answer`.
    """

    async def one(question: Question) -> Row:
        known = forced_outputs({"answer": question.answers[0]}) if taught else nullcontext()
        # A history of every prompt would grow without end; the trace holds what was sent.
        async with limit:
            outage.check()
            with known, dspy.context(disable_history=True):
                row = await answer(program, question, scorer, outage=outage, traced=traced)
        keep(row)
        done()
        return row

    with outage_of(limit) as outage:
        rows = tuple(await gather_or_cancel(map(one, questions)))
        outage.finish(len(rows))
        outage.check_scores(rows)
    return _with_worst(rows, scorer.metrics)


def _with_worst(rows: tuple[Row, ...], metrics: Sequence[Metric]) -> tuple[Row, ...]:
    """Returns `rows`, failures with the worst score of the others where scores of the user's are below 0."""
    for metric in (metric for metric in metrics if metric.unit == "score"):
        worst = min((row.scores[metric.id] or 0.0 for row in rows if not row.failure), default=0.0)
        if worst < 0:
            rows = tuple(
                replace(row, scores={**row.scores, metric.id: worst}) if row.failure else row for row in rows
            )
    return rows


def groups_of(rows: Sequence[Row]) -> list[str]:
    """Returns the label of each row's group, "" for a group of its own."""
    return [row.question.group for row in rows]


def failures_of(rows: Sequence[Row]) -> Failures:
    """Returns the number of `rows` without an answer, and the reasons."""
    marks = [(row.failure_kind, row.question.id) for row in rows]
    return Failures.among([row.failure for row in rows], marks)


def failed_searches(rows: Sequence[Row]) -> str:
    """Returns a sentence on searches of `rows` that failed; "" where none did.

    A program answers without their passages, so that only this and the trace tell them from empty results.
    """
    listed = [next(_failed_search(row.trace), "") for row in rows]
    if not any(listed):
        return ""
    reasons = Failures.among(listed)
    where = "A" if reasons.of == 1 else f"In {reasons.n} of {quantity(reasons.of, 'question')} a"
    return f"{where} search failed and brought no passages: {reasons.reason}."


def _failed_search(events: Sequence[Event]) -> Iterator[str]:
    """Yields `SOURCE: REASON` for each search that failed."""
    for event in events:
        if type(event) is Note and event.about.startswith(SEARCH) and event.outcome.startswith(FAILED):
            yield f"{event.about.removeprefix(SEARCH)}: {event.outcome.removeprefix(FAILED)}"


def means(rows: Sequence[Row], metrics: Sequence[Metric]) -> dict[str, float]:
    """Returns the mean of each metric over the questions it applies to; absent if it applies to none."""
    columns = {m.id: [v for row in rows if (v := row.scores[m.id]) is not None] for m in metrics}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
