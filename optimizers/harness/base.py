"""Harness for DSPy's optimizers: ragc's program, questions as DSPy examples, and the scorer as the metric.

DSPy's optimizers are synchronous and start their own threads. They run in one thread beside the process's
event loop. Every program call, teacher call and score runs on that loop, and so passes through the call store
and the ledger. Their output, logs and progress bars are muted.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, TypeVar

import dspy
from tqdm import TMonitor  # type: ignore[import-untyped]

from ragc.core import event_loop
from ragc.core.progress import Progress
from ragc.errors import RagcError
from ragc.metrics.base import Objective
from ragc.optimizers.harness.monitor import SearchMonitor, StopSearch
from ragc.optimizers.harness.teacher import role_of, teacher_lm
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.records import Question
from ragc.task.answering import Row, evaluate, outcome_of
from ragc.task.base import Task

_LOGGERS = ("dspy", "gepa", "optuna")
_muted: ContextVar[bool] = ContextVar("ragc_muted", default=False)


class _MutedStream:
    """A text stream that drops output from muted contexts and from the thread of progress bars.

    With `over` set it drops everything: only a bar that was never closed still writes to it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.over = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Returns the number of characters, written or dropped."""
        if self.over or _muted.get() or isinstance(threading.current_thread(), TMonitor):
            return len(text)
        return self._stream.write(text)


@contextmanager
def quiet() -> Iterator[None]:
    """Mutes output in this context, and all logs and warnings of DSPy, GEPA and Optuna meanwhile.

    Threads started with a copy of the context are muted too; other threads print normally.
    """
    streams = sys.stdout, sys.stderr
    muted = _MutedStream(streams[0]), _MutedStream(streams[1])
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    sys.stdout, sys.stderr = muted
    token = _muted.set(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _muted.reset(token)
        sys.stdout, sys.stderr = streams
        muted[0].over = muted[1].over = True
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


T = TypeVar("T")

UNLIMITED = 10**9
"""The number of errors that DSPy tolerates. Errors of ragc that must end a search are raised as `StopSearch`.
"""

LAST_CALLS = 120.0
"""The most seconds to wait for calls in flight after a search ended."""


class Harness:
    """A task prepared for one external optimizer.

    `train` are its train questions in an order drawn with its seed, `dev` its dev questions. `limit` bounds
    the questions that ragc answers itself. The optimizer is bounded by its own `task.in_flight` threads
    instead.
    """

    def __init__(self, task: Task, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self.limit, self.progress = task, limit, progress
        shuffled = list(task.train)
        random.Random(f"peers {task.seed}").shuffle(shuffled)
        self.questions = {question.id: question for question in (*task.train, *task.dev)}
        self.train = [example(question) for question in shuffled]
        self.dev = [example(question) for question in task.dev]
        self.teacher = teacher_lm(task.runtime, seed=task.seed)
        self.program: RagProgram
        self._greatest = 1.0

    @property
    def objective(self) -> Objective:
        """The objective to maximise: the one that the recipe picks by."""
        return self.task.pick

    async def build(self, knobs: dict[str, Value] | None = None) -> RagProgram:
        """Returns the baseline's program with `knobs` over its own, fitted to the train questions."""
        values = {**self.task.baseline_knobs, **(knobs or {})}
        program = await asyncio.to_thread(self.task.method.build, self.task.runtime, values)
        await self.task.fit(program)
        self.program = program
        return program

    async def rows(self, program: RagProgram, questions: Sequence[Question]) -> tuple[Row, ...]:
        """Returns `questions` answered and scored, through the store."""
        limit, done = self.limit, self.progress.step
        rows = await evaluate(program, questions, self.task.scorer, limit=limit, done=done)
        self._greatest = max([self._greatest, *map(self.value, rows)])
        return rows

    @property
    def best(self) -> float:
        """The greatest possible value: 1 for a share, 0 for a cost; infinite once a score was above 1."""
        if self.objective.sign < 0:
            return 0.0
        return 1.0 if self._greatest <= 1 else math.inf

    @property
    def offset(self) -> float:
        """What `metric` adds to values: DSPy scores a question without an answer with 0, which must not be
        the best. 1 for a share of which less is better; costs have no greatest value, and 0.
        """
        bounds = self.objective.metric.bounds
        return bounds[1] if bounds and self.objective.sign < 0 else 0.0

    def value(self, row: Row) -> float:
        """Returns the objective of one question, more is better."""
        return float(self.objective.of(row.scores))

    def mean(self, rows: Sequence[Row]) -> float:
        """Returns the mean of the objective over `rows`, at least one."""
        return sum(map(self.value, rows)) / len(rows)

    def scores(self, question: Question, prediction: Any, trace: Any = None) -> dict[str, float | None]:
        """Returns every metric of a DSPy prediction, with DSPy's `trace` of the run if there is one. Blocks,
        so it is never called on the process's event loop.
        """
        outcome = outcome_of(self.program, question, prediction, trace)
        return dict(event_loop.run(self.task.scorer.score(outcome)).scores)

    def metric(self, gold: Any, prediction: Any, trace: Any = None) -> float:
        """Returns the objective, with the `offset`, as DSPy's metric.

        With a `trace`, DSPy asks whether this run may be a demonstration. The result is then 1 if it reaches
        the threshold of the metric for demonstrations (without one: is above 0), else 0.
        """
        scores = self.scores(self.questions[gold.id], prediction, trace)
        if trace is None:
            return float(self.objective.of(scores)) + self.offset
        earned, least = scores.get(self.task.demo_metric.id) or 0.0, self.task.demo_threshold
        return float(earned >= least if least is not None else earned > 0)

    async def run(self, work: Callable[[], T], watch: SearchMonitor) -> T | None:
        """Returns the result of `work`, which calls DSPy's optimizers; None if an error of ragc ended it
        early.

        `work` runs in a thread with the teacher as its model. `watch.error` has the error. At the end nothing
        of the search is running, unless the wait was cancelled: then calls in flight finish and are stored.
        Raises other errors of `work`.
        """

        def run_work() -> T | None:
            strict = "schema" in self.task.runtime.target(role_of(self.task.runtime)).capabilities
            adapter = dspy.JSONAdapter() if strict else dspy.ChatAdapter()
            with (
                quiet(),
                dspy.context(
                    lm=self.teacher,
                    adapter=adapter,
                    callbacks=[watch],
                    trace=None,
                    disable_history=True,
                    num_threads=self.task.in_flight,
                    max_errors=UNLIMITED,
                ),
            ):
                try:
                    return work()
                except StopSearch:
                    return None
                finally:
                    watch.halt()
                    watch.wait_idle(LAST_CALLS)

        try:
            return await asyncio.to_thread(run_work)
        except asyncio.CancelledError:
            watch.halt()
            raise


def example(question: Question) -> Any:
    """Returns `question` as a DSPy example: the program's inputs, and the first gold answer, "" without.

    One that was an example is that, with its id.
    """
    if question.inputs is not None:
        return dspy.Example(**{**question.example, "id": question.id}).with_inputs(*question.inputs)
    inputs = {"question": question.question, **question.context(), "id": question.id}
    return dspy.Example(**inputs, answer="".join(question.answers[:1])).with_inputs(*inputs)


class OptimizerFailed(RagcError):
    """An optimizer of DSPy ended with an error of its own."""


def optimizer_error(name: str, error: Exception) -> OptimizerFailed:
    """Returns the error for a DSPy optimizer that failed before it evaluated anything."""
    message = " ".join(str(error).split())[:300]
    return OptimizerFailed(
        f"The optimizer {name!r} failed ({type(error).__name__}: {message}); try another one, such as 'ragc'."
    )
