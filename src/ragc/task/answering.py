"""Runs a program over questions: many in flight, results in the order of the questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import dspy

from ragc.core.counters import Counters
from ragc.core.display import describe, quantity
from ragc.core.event_loop import gather_or_cancel
from ragc.errors import ParseFailure
from ragc.metrics import Metric, Outcome
from ragc.metrics.base import Finding, OutcomeScores, Scorer
from ragc.metrics.failures import Failures
from ragc.programs.base import FAILED, SEARCH, RagProgram
from ragc.programs.calls.demos import forced_outputs
from ragc.programs.trace import Event, Note, by_part, whole_json
from ragc.records import Passage, Question

NOTHING = Scorer(())
"""A scorer without metrics."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question answered and scored.

    `scores` has every metric; None if it does not apply. `failure` is the reason for a missing prediction:
    the reply was unreadable. Such a question scores 0 and costs what was spent. `findings` are the metrics'
    findings by family, and `judging` is the cost of judging, which is no cost of the program. `seen` is the
    earlier use of a contaminated question, such as "dev"; "" for none.
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

    def __repr__(self) -> str:
        scores = {name: score for name, score in self.scores.items() if score is not None}
        shown = {"prediction": repr(self.prediction), "passages": len(self.passages), "failure": self.failure}
        return describe("Row", repr(self.question.question), **{**shown, **scores})

    @property
    def total_cost(self) -> Counters:
        """The total cost of the question: the program's calls and the judge's."""
        total = Counters()
        for amounts in (self.counters, self.judging):
            total.add(**{name: amounts.get(name, 0) for name in total.to_json()})
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
            **({"seen": self.seen} if self.seen else {}),
            **self._findings(),
            "trace": [whole_json(event) if prompts else event.to_json() for event in self.trace],
        }

    def _findings(self) -> dict[str, Any]:
        """Returns the findings as JSON; empty if there are none."""
        if not self.findings:
            return {}
        return {
            "backends": {family: finding.backend for family, finding in self.findings.items()},
            "found": {family: finding.value for family, finding in self.findings.items()},
            "judging": dict(self.judging),
        }


def was_replayed(row: Row) -> bool:
    """Returns whether all replies of `row` were stored by an earlier run."""
    return bool(row.counters.get("replayed")) and not row.counters.get("sent")


async def answer(program: RagProgram, question: Question, scorer: Scorer = NOTHING) -> Row:
    """Answers and scores one question.

    An unreadable reply is a wrong answer; every other error is raised.
    """
    try:
        reply = await program.acall(question=question.question, **question.context())
        prediction, passages, counters = str(reply.answer), tuple(reply.passages), dict(reply.counters)
        events, failure, candidates = reply.trace, "", tuple(reply.get("candidates") or ())
    except ParseFailure as error:
        prediction, passages, counters, failure = None, (), dict(error.counters), str(error)
        events, candidates = error.events, ()
    scored = OutcomeScores({})
    if scorer.metrics:
        amounts = {**counters, **by_part(events)}
        scored = await scorer.score(Outcome.of(question, prediction, passages, amounts, candidates))
    return Row(
        question, prediction, passages, scored.scores, counters, events, failure, scored.findings, scored.cost
    )


async def evaluate(
    program: RagProgram,
    questions: Sequence[Question],
    scorer: Scorer,
    *,
    limit: asyncio.Semaphore,
    done: Callable[[], None] = lambda: None,
    taught: bool = False,
) -> tuple[Row, ...]:
    """Answers and scores every question, in the given order, with at most `limit` in flight.

    Questions start in order, and `done` is called after each. The first error cancels the rest and is raised.
    With `taught` the first gold answer replaces the model's answer; calls before the answer are still made.
    """

    async def one(question: Question) -> Row:
        known = forced_outputs({"answer": question.answers[0]}) if taught else nullcontext()
        # A history of every prompt would grow without end; the trace holds what was sent.
        async with limit:
            with known, dspy.context(disable_history=True):
                row = await answer(program, question, scorer)
        done()
        return row

    return tuple(await gather_or_cancel(map(one, questions)))


def groups_of(rows: Sequence[Row]) -> list[str]:
    """Returns the label of each row's group, "" for a group of its own."""
    return [row.question.group for row in rows]


def failures_of(rows: Sequence[Row]) -> Failures:
    """Returns the number of `rows` without an answer, and the reasons."""
    return Failures.among(row.failure for row in rows)


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
    out: dict[str, float] = {}
    for metric in metrics:
        values = [v for row in rows if (v := row.scores[metric.id]) is not None]
        if values:
            out[metric.id] = sum(values) / len(values)
    return out
