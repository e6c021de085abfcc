"""RagProgram: the base of every method, an asynchronous DSPy module.

A method implements `async aforward(question, **context)` and awaits searches and typed calls; this class
records them, counts their cost, and lets synchronous callers wait.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import dspy

from ragc.core import counters, event_loop
from ragc.core.counters import Counters
from ragc.core.display import describe
from ragc.core.text import repair_surrogates, repair_value
from ragc.corpora.sources.base import current_question
from ragc.errors import (
    OF_ONE_QUESTION,
    RequestRefused,
    SourceError,
    TargetStopped,
    TargetUnavailable,
    UsageError,
)
from ragc.programs import trace
from ragc.programs.calls.chosen_lm import shared_lm
from ragc.programs.calls.predict import RagPredict, extend_trace
from ragc.programs.knobs import WORDED, Knobs
from ragc.programs.runtime import Runtime
from ragc.programs.saved_settings import NAME, settings_of
from ragc.records import HISTORY, Hit, Passage, Question, read_turns
from ragc.signatures.answer import (
    FORMATS,
    UNCITED,
    apply_format,
    drop_wrong_marks,
    with_knowledge,
    with_question,
    with_reasoning,
)
from ragc.signatures.wording import worded
from ragc.targets.base import Role, Sampling

if TYPE_CHECKING:
    from ragc.corpora.sources.base import Source
    from ragc.metrics.base import Scorer
    from ragc.programs.method import Method


REASONING = 412
"""Tokens of a reply that reasons before it answers, beside those of the answer: 512 for a short one."""

SPANS = "RAGC_OTEL"
"""The environment variable that switches spans on (`ragc.programs.telemetry`), unless it is 0."""

SEARCH, FAILED = "search ", "failed: "
"""How the subject and the outcome of the note on a failed search begin."""

T = TypeVar("T")


def passages_in(items: Any) -> Iterator[Passage]:
    """Yields the passages among `items`, and those in the field `passages` of its steps, in order."""
    for item in items:
        if isinstance(item, Passage):
            yield item
        else:
            yield from getattr(item, "passages", ())


def format_passage(passage: Passage) -> str:
    """Returns a passage as a prompt shows it: title, then text."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def mix_noise(
    passages: Sequence[Passage], noise: Sequence[Passage], place: str, seed: str
) -> tuple[Passage, ...]:
    """Returns `passages` with `noise` at the "end", or at random places drawn by `seed`."""
    mixed, order = list(passages), random.Random(f"noise {seed}")
    for passage in noise:
        mixed.insert(len(mixed) if place == "end" else order.randrange(len(mixed) + 1), passage)
    return tuple(mixed)


async def unless_failed(work: Awaitable[T]) -> T | None:
    """Returns the result of `work`; None where a request of it failed, and others may be answered."""
    try:
        return await work
    except TargetStopped:
        raise
    except (RequestRefused, TargetUnavailable):
        return None


class RagProgram(dspy.Module):
    """A method on a runtime with its knobs set.

    The prediction has `answer` (str), `passages` (tuple of Passage, as shown to the last call), `trace`
    (tuple of events in call-graph order) and `counters`, to which the method's own `tallies` (numbers by
    name) are added. Knobs are fixed at construction; `Method.build` makes a program with others.
    """

    method: Method

    def __init__(self, runtime: Runtime, knobs: Knobs) -> None:
        super().__init__()
        self.runtime = runtime
        self.knobs: Any = knobs

    def __repr__(self) -> str:
        runtime, defaults = self.runtime, {knob.name: knob.default for knob in self.knobs.list_knobs()}
        targets = {role: runtime.target(role).name for role in (*runtime.targets, *runtime.target_names)}
        changed = {name: value for name, value in vars(self.knobs).items() if value != defaults[name]}
        demos = sum(len(predictor.demos) for predictor in self.predictors())
        values = {**targets, **runtime.sources, **changed, "demos": demos or None}
        return describe("RagProgram", repr(self.title), **values)

    @property
    def title(self) -> str:
        """The id of the method, or the class of a program that no method built."""
        method = getattr(self, "method", None)
        return method.id if method else type(self).__name__

    @property
    def flow_code(self) -> Any:
        """The function that composes the calls."""
        return type(self).aforward

    @property
    def chooses_demos(self) -> bool:
        """Whether the question decides which demonstrations are shown, at most `icl_n`."""
        return False

    def predictor(self, signature: Any, *, role: Role = "main", max_tokens: int, **more: Any) -> RagPredict:
        """Builds a typed call with this program's wording, layout, sampling and number of demonstrations."""
        knobs = self.knobs
        return RagPredict(
            worded(signature, knobs.wording),
            self.runtime,
            role=role,
            layout=knobs.layout,
            sampling=Sampling(temperature=knobs.temperature, top_p=knobs.top_p, max_tokens=max_tokens),
            max_demos=knobs.icl_n,
            **more,
        )

    def cut_source(self, source: str | Source) -> Source:
        """Returns `source`, or the one of that name, in chunks of at most `context_tokens`, by the knobs."""
        knobs = self.knobs
        size = min(knobs.chunk_size, knobs.context_tokens or knobs.chunk_size)
        whole = self.runtime.source(source) if isinstance(source, str) else source
        return whole.rechunk(size, knobs.overlap)

    def reading(self, signature: Any) -> Any:
        """Returns `signature` of a call that reads passages, by the knobs `query_pos` and `own_knowledge`."""
        return with_question(self.answering(signature), self.knobs.query_pos)

    def answering(self, signature: Any) -> Any:
        """Returns `signature` of a call that answers, by the knob `own_knowledge`."""
        return with_knowledge(signature, self.may_know)

    @property
    def may_know(self) -> bool:
        """Returns whether answers may use the model's own knowledge; not in formats with citations."""
        return bool(self.knobs.own_knowledge and self.knobs.answer_format in WORDED)

    def answer_call(
        self,
        signature: Any,
        *,
        cot: bool | None = None,
        also: Sequence[str] = (),
        limit: int | None = None,
        extra_tokens: int = 0,
        **more: Any,
    ) -> RagPredict:
        """Builds the typed call of the final answer: `signature` worded by the knob `answer_format`.

        Without passages to cite, a plain paragraph or list replaces a cited one. The call reasons first if
        `cot`, or else the knob of that name, is True. `also` are answers allowed beside the options of a
        format with options; `limit` replaces the format's own limit of tokens, and `extra_tokens` is for
        outputs beside answer and reasoning.
        """
        thinks = getattr(self.knobs, "cot", False) if cot is None else cot
        form = self.knobs.answer_format
        if "passages" not in signature.input_fields:
            form = UNCITED.get(form, form)
        tokens = FORMATS[form].tokens if limit is None else limit
        signature = apply_format(signature, form, tuple(also))
        return self.predictor(
            with_reasoning(signature) if thinks else signature,
            max_tokens=tokens + extra_tokens + (REASONING if thinks else 0),
            **more,
        )

    async def answer_from(
        self, call: RagPredict, question: str, passages: Sequence[Passage], **inputs: Any
    ) -> dspy.Prediction:
        """Sends `question` to `call` with as many of the first `passages` as fit.

        The prediction has `passages`, those shown, beside the outputs. In a format with marks, those of
        passages that were not shown are dropped and counted.
        """
        shown_passages = self.passages_that_fit(call, passages, question=question, **inputs)
        reply = await call.acall(
            question=question, passages=[format_passage(p) for p in shown_passages], **inputs
        )
        outputs = {**dict(reply.items()), "passages": shown_passages}
        if "answer" in outputs:
            outputs["answer"] = self.hold_to_passages(reply.answer, len(shown_passages))
        return dspy.Prediction(**outputs)

    def hold_to_passages(self, answer: str, n: int) -> str:
        """Returns `answer` as it is, or in a format with marks without those beyond the first `n` passages.

        Of several marks of one list item the first stays. Dropped marks are counted.
        """
        form = self.knobs.answer_format
        if form not in UNCITED:
            return answer
        kept, wrong = drop_wrong_marks(answer, n, single=form == "cited_list")
        counters.count(dropped=wrong)
        return kept

    @property
    def learned(self) -> dict[str, Any]:
        """Returns what `fit` learned, as JSON values by name; a compiled program stores it."""
        return {}

    @learned.setter
    def learned(self, value: Mapping[str, Any]) -> None:
        if value:
            raise UsageError(f"{type(self).__name__} learns nothing, found {', '.join(map(repr, value))}.")

    async def fit(self, questions: Sequence[Question], scorer: Scorer) -> None:
        """Learns from train questions, scored by the one metric of `scorer`; most programs learn nothing."""

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Returns DSPy's parameters: the settings first, to refuse differing knobs, then predictors."""
        return [(NAME, settings_of(self)), *self.named_predictors()]

    def named_predictors(self) -> list[tuple[str, Any]]:
        """Returns the predictors by name, without the settings, which are no predictor."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, dspy.Predict)]

    def named_calls(self) -> list[tuple[str, Any]]:
        """Returns the typed calls by name: the predictors, or for a user's module what these send."""
        return self.named_predictors()

    def shown_passages(self, prediction: dspy.Prediction) -> tuple[Passage, ...]:
        """Returns the passages of `prediction` that were shown."""
        return tuple(prediction.passages)

    def get_lm(self) -> Any:
        """Returns the LM chosen for all predictors, or one that represents the program's own targets.

        DSPy's optimizers copy it to draw several replies. Raises ValueError if predictors have different
        ones.
        """
        return shared_lm(self.predictors(), self.runtime)

    def set_lm(self, lm: Any) -> None:
        """Sends all calls to `lm` instead of their targets; None restores the targets.

        Raises UsageError if `lm` is no LM, or has no model.
        """
        if lm is not None:
            from ragc.targets.dspy_lm import target_of

            target_of(lm)
        super().set_lm(lm)

    @property
    def rewrites(self) -> bool:
        """Whether the last turn of a conversation is made a question that stands alone, by one more call."""
        return bool(getattr(self.knobs, HISTORY, "last") == "rewrite")

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question`; `context` may hold what `Question.context` gives."""
        raise NotImplementedError(f"{type(self).__name__} has no aforward")

    def forward(self, *args: Any, **inputs: Any) -> dspy.Prediction:
        """Answers and waits; safe in any number of threads. Raises UsageError without `question=TEXT`."""
        self._check_call(args, inputs)
        with self._streaming():
            return event_loop.run(self._run_recorded(self.aforward, inputs))

    async def acall(self, *args: Any, **inputs: Any) -> dspy.Prediction:
        """Answers; may be awaited on any loop. Raises UsageError without `question=TEXT`."""
        self._check_call(args, inputs)
        with self._streaming():
            return await event_loop.on_loop(self._run_recorded(super().acall, inputs))

    def _check_call(self, args: Sequence[Any], inputs: Mapping[str, Any]) -> None:
        if args or not isinstance(inputs.get("question"), str):
            raise UsageError("A program is called as program(question=TEXT): a text, by its name.")

    def _name_calls(self) -> None:
        for name, predictor in self.named_predictors():
            predictor.name = name

    @staticmethod
    def _streaming() -> AbstractContextManager[None]:
        """Returns a context that lets calls on the process's loop reach `dspy.streamify`, if it is used."""
        if dspy.settings.send_stream is None:
            return nullcontext()
        from ragc.programs.calls.streaming import reaching_caller

        return reaching_caller()

    async def _run_recorded(
        self, answer: Callable[..., Awaitable[dspy.Prediction]], inputs: dict[str, Any]
    ) -> dspy.Prediction:
        self._name_calls()
        inputs = repair_value(inputs)
        earlier = read_turns(inputs.get(HISTORY)) if self.rewrites else ()
        question = Question(
            id=str(inputs.get("id", "")),
            question=str(inputs.get("question", "")),
            answers=(),
            context_ids=tuple(inputs.get("context_ids") or ()),
            query_time=str(inputs.get("query_time") or ""),
        )
        await self.runtime.ready()
        began, passed = time.monotonic(), list[float]()
        question_token, passed_token = current_question.set(question), counters.passed.set(passed)
        try:
            with trace.recording(self._watched_run(inputs)) as run, counters.counting(Counters()) as cost:
                if earlier:
                    from ragc.programs.calls.standalone import rewriter, standalone

                    call = rewriter(self.runtime, self.knobs)
                    rewritten = standalone(call, earlier, inputs["question"])
                    inputs["question"] = await event_loop.wait(rewritten)
                    del inputs[HISTORY]
                prediction = await answer(**inputs)
        except OF_ONE_QUESTION as error:
            error.counters, error.events = self._cost(cost, began, passed), run.events
            raise
        finally:
            current_question.reset(question_token)
            counters.passed.reset(passed_token)
        # By item: DSPy looks through all of its own attributes before it sets one.
        prediction["trace"] = run.events
        prediction["counters"] = {**self._cost(cost, began, passed), **(prediction.get("tallies") or {})}
        extend_trace(run.predictions)
        run.finish(prediction)
        return prediction

    def _watched_run(self, inputs: Mapping[str, Any]) -> trace.Run | None:
        """Returns the run that sends the question as spans; None if no spans are asked for."""
        if os.environ.get(SPANS, "") in ("", "0"):
            return None
        from ragc.programs.telemetry import SpanRun

        return SpanRun(self.title, inputs, lambda role: self.runtime.target(role).model)

    @staticmethod
    def _cost(cost: Counters, began: float, passed: Sequence[float]) -> dict[str, float]:
        """Returns the total cost by name of a question that began then; `passed` are seconds of replays."""
        latency = time.monotonic() - began + sum(passed)
        return {**cost.to_json(), "tokens": cost.tokens, "latency": latency}

    async def search(self, name: str, query: str, k: int, *, source: Source | None = None) -> tuple[Hit, ...]:
        """Returns at most `k` hits of the source called `name`, labelled with it.

        A passage that is longer than the budget of a call is cut. A failed search returns no hits, is noted
        in the trace and counted.
        """
        spot, query = trace.allocate_position(), repair_surrogates(query)
        counters.count(searches=1)
        event: trace.Event
        try:
            results = await (source or self.runtime.source(name)).search(query, k)
            hits = tuple(self._within_budget(hit.from_source(name)) for hit in results)
            event = trace.Search(name, query, k, hits, at=spot[1] if spot else ())
        except SourceError as error:
            counters.count(failed_searches=1)
            hits, event = (), trace.Note(f"{SEARCH}{name}", f"{FAILED}{error}")
        if spot is not None:
            spot[0].add(spot[1], event)
        return hits

    async def find(
        self, name: str, query: str, k: int, *, source: Source | None = None
    ) -> tuple[Passage, ...]:
        """Returns the passages that `search` finds."""
        return tuple(hit.passage for hit in await self.search(name, query, k, source=source))

    async def write_query(self, call: RagPredict, field: str, otherwise: str, **inputs: Any) -> str:
        """Returns the output `field` of `call`; `otherwise` if unreadable, or empty, which is counted."""
        reply = await call.try_call(**inputs)
        query = "" if reply is None else str(reply[field]).strip()
        if reply is not None and not query:
            counters.count(dropped=1)
        return query or otherwise

    @property
    def budget(self) -> int:
        """Returns the most tokens of passages that one call reads; 0 if only the context bounds them."""
        return int(getattr(self.knobs, "context_tokens", 0))

    def passage_tokens(self, passages: Iterable[Passage], role: Role = "main") -> int:
        """Returns the tokens of `passages` in a prompt, each once, as the target of `role` counts them."""
        target = self.runtime.target(role)
        return sum(target.count_tokens(format_passage(passage)) for passage in dict.fromkeys(passages))

    def _within_budget(self, hit: Hit) -> Hit:
        """Returns `hit`, its passage cut at the end if it is longer than the budget."""
        passage = hit.passage
        while self.budget and passage.text and (tokens := self.passage_tokens((passage,))) > self.budget:
            length = len(passage.text)
            passage = replace(passage, text=passage.text[: min(length - 1, length * self.budget // tokens)])
        return hit if passage is hit.passage else replace(hit, passage=passage)

    def passages_that_fit(
        self, call: RagPredict, passages: Sequence[Passage], *, budgeted: bool = True, **inputs: Any
    ) -> tuple[Passage, ...]:
        """Returns as many of the first `passages` as fit, as in `shrink_to_fit`."""
        return self.shrink_to_fit(
            call,
            tuple(passages),
            lambda subset: {**inputs, "passages": [format_passage(p) for p in subset]},
            budgeted=budgeted,
        )

    def shrink_to_fit(
        self,
        call: RagPredict,
        items: T,
        inputs: Callable[[T], Mapping[str, Any]],
        shorter: Callable[[T], T] = lambda sequence: sequence[:-1],  # type: ignore[index]
        *,
        budgeted: bool = True,
    ) -> T:
        """Shortens `items` by `shorter` until a call with `inputs(items)` fits, or nothing is left.

        It fits when its passages fit the budget and all of it the context. A call that only ranks or sorts
        passages is not `budgeted`. Each cut is counted as trimmed. By default the last item is removed.
        """
        cuts, budget = 0, self.budget if budgeted else 0
        while items and not (
            (not budget or self.passage_tokens(passages_in(items), call.role) <= budget)
            and call.fits(**inputs(items))
        ):
            items = shorter(items)
            cuts += 1
        if cuts:
            counters.count(trimmed=cuts)
        return items


class LearnsLabels(RagProgram):
    """A program that learns labels of train questions; assigning `labels` checks them."""

    labels: Any

    @property
    def learned(self) -> dict[str, Any]:
        """The labels, if there are any."""
        return {"labels": [list(label) for label in self.labels]} if self.labels else {}

    @learned.setter
    def learned(self, value: Mapping[str, Any]) -> None:
        if set(value) - {"labels"}:
            raise UsageError(f"{type(self).__name__} learns labels, found {', '.join(map(repr, value))}.")
        self.labels = value.get("labels", ())
