"""OwnPredict: a predictor inside a user's module, and what is known of the question it is called for.

A user's code may call predictors from threads that it starts, may catch every error, and may go on when
nobody waits for it. So the question holds what must not get lost: how many calls were made, and the first
error that must end more than this question.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy

from ragc.corpora.sources.base import current_question
from ragc.errors import ParseFailure, RagcError, UsageError
from ragc.programs.calls.predict import RagPredict
from ragc.programs.own.schemas import is_closed
from ragc.records import Passage
from ragc.targets.base import ChatRequest, Message, Reply, Sampling

T = TypeVar("T")

SETTING = "ragc_own_question"
"""The name of the question among DSPy's settings, which DSPy carries into its threads."""


@dataclass(slots=True)
class Running:
    """A question that the module called `name` answers, with at most `most` calls.

    `hits` are the passages that searches gave, by their text in a prompt. `stopped` is the first error that
    ends more than this question. Calls of a question that was `cancelled` are refused.
    """

    name: str
    most: int
    says: bool
    hits: dict[str, Passage] = field(default_factory=dict)
    stopped: RagcError | None = None
    cancelled: bool = False
    context: Context | None = None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def count_call(self) -> None:
        """Count one call. Raises UsageError where the module said that it makes fewer."""
        if self.cancelled:
            raise asyncio.CancelledError
        if next(self.numbers) > self.most:
            where = "as its `most_calls` says" if self.says else "taken to be the most, as it does not say"
            raise UsageError(
                f"The module {self.name} made more than {self.most} calls of its predictors for one "
                f"question, {where}; set most_calls on the class to the most that a question takes."
            )

    def join(self, work: Callable[[], T]) -> T:
        """What `work` gives, in this question's trace and counters where a thread of DSPy's left them."""
        held = self.context
        if held is None or running.get() is self:
            return work()

        def joined() -> T:
            for variable, value in held.items():
                if variable.name.startswith("ragc_") or variable is current_question:
                    variable.set(value)
            return work()

        return copy_context().run(joined)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Keep the first error that must end more than this question, should the user's code catch it."""
        try:
            yield
        except ParseFailure:
            raise
        except RagcError as error:
            self.stopped = self.stopped or error
            raise


running: ContextVar[Running | None] = ContextVar("ragc_own_running", default=None)


def current() -> Running | None:
    """The question of this context, or of the thread of DSPy's that a call comes from."""
    return running.get() or dspy.settings.get(SETTING)


class OwnPredict(RagPredict):
    """A typed call of a user's module. A reply whose schema leaves a field open is not held to one.

    A copy that is made while a question is answered, as BestOfN makes them, is traced as what it was copied
    from, so that its calls can become demonstrations.
    """

    _copied_from: OwnPredict | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnPredict:
        twin = super().__deepcopy__(memo)
        twin._copied_from = (self._copied_from or self) if running.get() is not None else None
        return twin

    @property
    def traced_as(self) -> RagPredict:
        """The predictor that DSPy's trace names for a call of this one."""
        return self._copied_from or super().traced_as

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """As RagPredict's, counted for the question that is answered."""
        question = current()
        if question is None:
            return super().forward(**kwargs)
        plain_forward = super().forward
        with question.watch():
            return question.join(lambda: plain_forward(**kwargs))

    async def aforward(self, **kwargs: Any) -> dspy.Prediction:
        """As RagPredict's, counted for the question that is answered."""
        question = current()
        if question is None:
            return await super().aforward(**kwargs)
        with question.watch():
            return await super().aforward(**kwargs)

    def _prepare(self, kwargs: dict[str, Any]) -> Any:
        if (question := current()) is not None:
            question.count_call()
        return super()._prepare(kwargs)

    def sampling_for(self, config: dict[str, Any] | None, lm: Any) -> tuple[Sampling, int]:
        """As TypedPrompt's; refuses several completions of one call."""
        if int((config or {}).get("n") or self.config.get("n") or 1) > 1:
            raise UsageError(
                f"The predictor {self.name or 'without a name'!r} draws several completions (n), and a call "
                "has one reply here; call it once for each, with other numbers in "
                "config={'rollout_id': 1, 'temperature': 0.7}."
            )
        return super().sampling_for(config, lm)

    def chat_request(self, messages: tuple[Message, ...], sampling: Sampling, sample: int) -> ChatRequest:
        """As TypedPrompt's, without a schema where that is open."""
        return _without_open(super().chat_request(messages, sampling, sample))

    def repair_request(self, request: ChatRequest, reply: Reply, error: str) -> ChatRequest:
        """As TypedPrompt's, without a schema where that is open."""
        return _without_open(super().repair_request(request, reply, error))


def _without_open(request: ChatRequest) -> ChatRequest:
    held: Mapping[str, Any] | None = request.schema
    return request if held is None or is_closed(held) else replace(request, schema=None)
