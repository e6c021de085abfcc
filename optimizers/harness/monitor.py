"""Monitors a DSPy optimizer: the programs it evaluated, and the error that ends it.

DSPy scores a program that raises an error with 0 and continues. That is right for an unreadable reply and a
failed request, but a spent budget or a lost server must end the search. Every such error in DSPy's threads is
therefore raised as a `StopSearch`, which `except Exception` does not catch, and no further call starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspy.utils.callback import BaseCallback

from ragc.core import counters, event_loop
from ragc.errors import OF_ONE_QUESTION, RagcError
from ragc.metrics.failures import Failures
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.knobs import Value
from ragc.targets.dspy_lm import cause
from ragc.task.answering import Outage


class StopSearch(BaseException):
    """Ends a search from inside; `SearchMonitor.error` has the cause.

    Not an `Exception`, because DSPy would catch it.
    """


@dataclass(frozen=True, slots=True)
class PredictorChoice:
    """The instructions of one typed call, and its demonstrations as JSON objects."""

    instructions: str
    demos: tuple[dict[str, Any], ...]


Predictors = dict[str, PredictorChoice]
"""The choices by predictor name."""


def read_choices(program: RagProgram) -> Predictors:
    """Returns the present choices of `program`. Demonstrations keep the fields of their signature."""
    return {name: _read_choice(predictor) for name, predictor in program.named_predictors()}


def _read_choice(predictor: Any) -> PredictorChoice:
    signature, demos = predictor.signature, []
    for demo in map(plain, predictor.demos):
        known = {name: value for name, value in demo.items() if name in signature.fields}
        # A train question with other fields than the call is no demonstration; DSPy would not show it.
        if known.keys() & signature.input_fields.keys() and known.keys() & signature.output_fields.keys():
            demos.append(known)
    return PredictorChoice(signature.instructions, tuple(demos))


NONE = Failures()


@dataclass(frozen=True, slots=True)
class EvaluatedProgram:
    """One program scored on all dev questions: the mean of the first objective, more is better.

    `failures` counts the questions without an answer, if an evaluation of DSPy reported them.
    """

    score: float
    knobs: Mapping[str, Value]
    predictors: Predictors
    failures: Failures = NONE


class SearchMonitor(BaseCallback):
    """DSPy's callback for one search. `dev` are the ids of the questions of a full evaluation.

    `evaluated` lists the full evaluations in the order in which they ended. `done` is called after every
    answered question, `on_evaluated` after every full evaluation, both on the process's event loop. DSPy's
    scores are above the values by `offset`. Calls of DSPy's threads are charged to the counters that were
    active when the monitor was created.
    """

    def __init__(
        self,
        dev: Iterable[str],
        *,
        done: Callable[[], None],
        on_evaluated: Callable[[list[EvaluatedProgram]], None],
        offset: float = 0.0,
    ) -> None:
        self.evaluated: list[EvaluatedProgram] = []
        self.error: RagcError | None = None
        self._dev, self._done, self._on_evaluated = sorted(dev), done, on_evaluated
        self._offset = offset
        self._charged = counters.current.get()
        self._lock = threading.Condition()
        self._running: set[str] = set()
        self._programs: set[str] = set()
        self._evaluations: dict[str, Any] = {}
        self._halted = False
        self._failure = ""
        self._outage = Outage()

    @property
    def best(self) -> EvaluatedProgram | None:
        """The full evaluation with the highest score, the earliest of equals; None if there is none."""
        return max(self.evaluated, key=lambda evaluation: evaluation.score, default=None)

    def halt(self, error: RagcError | None = None) -> None:
        """Prevents new calls from starting; the first `error` is recorded."""
        with self._lock:
            self._halted = True
            self.error = self.error or error

    def wait_idle(self, seconds: float) -> bool:
        """Waits at most `seconds` until no call is running. Returns whether none is."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._running, seconds)

    def _begin(self, call_id: str, instance: Any) -> None:
        if event_loop.is_on_loop():  # a call inside a program; the program's own call is tracked
            return
        with self._lock:
            if self._halted:
                raise StopSearch
            self._running.add(call_id)
            if isinstance(instance, RagProgram):
                self._programs.add(call_id)
        counters.current.set(self._charged)  # DSPy's threads start without the caller's context

    def _end(self, call_id: str, exception: BaseException | None, *, is_lm: bool = False) -> None:
        if event_loop.is_on_loop():
            return
        with self._lock:
            self._running.discard(call_id)
            answered = call_id in self._programs
            self._programs.discard(call_id)
            self._lock.notify_all()
        error = cause(exception) if exception is not None else None
        if error is not None and answered:
            self._failure = self._failure or str(error)
        of_one = isinstance(error, OF_ONE_QUESTION)
        try:
            if (answered or is_lm) and (exception is None or of_one):
                with self._lock:
                    self._outage.take(error)
            elif error is not None and not of_one:
                raise error
        except RagcError as last:
            self.halt(last)
            raise StopSearch from last
        if answered:
            event_loop.get().call_soon_threadsafe(self._done)

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Tracks the start of a program or a proposer's predictor. Raises StopSearch after the search."""
        self._begin(call_id, instance)

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Tracks the end of such a call. Raises StopSearch if an error of ragc ended it."""
        self._end(call_id, exception)

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Tracks the start of a teacher call. Raises StopSearch after the search ended."""
        self._begin(call_id, instance)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Tracks the end of a teacher call. Raises StopSearch if an error of ragc ended it."""
        self._end(call_id, exception, is_lm=True)

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Tracks the start of an evaluation on all dev questions; other evaluations are ignored."""
        devset = inputs.get("devset") or instance.devset
        ids = sorted(str(example.get("id", "")) for example in devset)
        if ids == self._dev and isinstance(inputs.get("program"), RagProgram):
            self._evaluations[call_id] = inputs["program"]

    def on_evaluate_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Records a full evaluation. DSPy rounds its score, so the mean is computed here."""
        program = self._evaluations.pop(call_id, None)
        if program is None or outputs is None:
            return
        results = outputs.results
        reasons = [
            "" if "answer" in prediction else self._failure or "no answer" for _, prediction, _ in results
        ]
        scores = [float(score) - self._offset for *_, score in results]
        self.keep(program, scores, Failures.among(reasons))

    def keep(self, program: RagProgram, scores: Sequence[float], failures: Failures = NONE) -> None:
        """Records `program` with its `scores`, at least one, on the questions it is compared on."""
        mean = sum(scores) / len(scores)
        self.evaluated.append(
            EvaluatedProgram(mean, program.knobs.to_json(), read_choices(program), failures)
        )
        event_loop.get().call_soon_threadsafe(self._on_evaluated, list(self.evaluated))
