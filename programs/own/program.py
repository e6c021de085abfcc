"""OwnProgram: a user's DSPy module as a program of ragc, which runs as it is, on gated language models."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import threading
import traceback
from collections import Counter
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import cache, cached_property, partial
from math import inf
from types import SimpleNamespace
from typing import Any

import anyio
import dspy
import orjson
from dspy.utils.exceptions import AdapterParseError

from ragc.core import counters, event_loop
from ragc.core.digest import digest
from ragc.core.text import escape_markers
from ragc.errors import ParseFailure, UsageError
from ragc.programs import trace
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.calls.chosen_lm import context_lm, refines
from ragc.programs.knobs import Knobs
from ragc.programs.own import SETTINGS, adapters
from ragc.programs.own.gateway import (
    SETTING,
    Gated,
    OwnQuestion,
    Steps,
    current,
    gate,
    lm_of,
    loop_here,
    running,
)
from ragc.programs.own.numbers import Declared, numbers_of
from ragc.programs.own.prompts import OwnCall
from ragc.programs.runtime import Runtime
from ragc.records import HISTORY, Passage
from ragc.targets.base import Sampling
from ragc.targets.dspy_lm import DspyTarget, cause

CONTEXT = ("id", "context_ids", "query_time", "domain", HISTORY, "sub_questions")
"""What a row of a data set has beside its question, and a module is given if it takes it."""


class OwnProgram(RagProgram):
    """The user's `module`, called with any inputs; its prediction has all of the module's fields.

    `trace` and `counters` are added to it. Predictors without an LM of their own use the target main;
    `dspy.Retrieve` searches the source `local`, or the retriever of `dspy.configure(rm=...)`. A `forward`
    runs in a thread, an `aforward` only where there is no `forward`. An error of the module leaves the
    question without an answer. `module.most_calls`, a number or a method, says how many calls of predictors a
    plan reckons with. `adapter` is that of a program that was written under another one than DSPy has here.
    """

    def __init__(self, runtime: Runtime, knobs: Knobs, module: dspy.Module) -> None:
        super().__init__(runtime, knobs)
        self.module = module
        self.adapter: Any = None
        self._searches = "local" in runtime.sources
        for path, (part, declaration) in numbers_of(module).items():
            setattr(part, declaration.name, getattr(knobs, path))
        self._check()
        self._gate()

    @classmethod
    def of(cls, module: dspy.Module, runtime: Runtime, knobs: Knobs) -> OwnProgram:
        """Returns the program of a copy of `module`. Raises UsageError."""
        return cls(runtime, knobs, copied(module))

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnProgram:
        twin = memo[id(self)] = type(self)(self.runtime, self.knobs, copied(self.module))
        twin.method, twin.adapter, twin._compiled = self.method, self.adapter, self._compiled
        return twin

    def _check(self) -> None:
        """Raises UsageError if the module cannot be compiled, saying what to change."""
        name, predictors = type(self.module).__name__, self.named_predictors()
        if not hasattr(type(self.module), "forward") and not hasattr(type(self.module), "aforward"):
            raise UsageError(f"The module {name} has no forward; define forward(self, ...).")
        if not predictors and not numbers_of(self.module):
            raise UsageError(f"The module {name} has no predictors to compile; add a dspy.Predict.")
        for where, predictor in predictors:
            if hasattr(predictor, "runtime"):
                raise UsageError(f"The module {name} holds a program of ragc; compile that one by itself.")
            if not re.fullmatch(r"[\w.'\[\] -]+", where):
                raise UsageError(
                    f"The predictor {where!r} of {name} has a name that no file can have; use letters, "
                    "digits, spaces, dots, - and _ in the keys of its dictionary."
                )
        for _, part in self.module.named_sub_modules():
            for key, value in vars(part).items():
                if isinstance(value, Declared):
                    raise UsageError(
                        f"{name} declares {key!r} in __init__, where it stays no number; declare it on the "
                        f"class: {key} = ragc.number(...)."
                    )
                if isinstance(value, dspy.Retrieve) and not (self._searches or dspy.settings.rm):
                    raise UsageError(
                        f"{name} searches with dspy.Retrieve, and there is no source named 'local'; add "
                        "[sources.local] to the recipe, or pass local= or dspy.configure(rm=...)."
                    )
        for setting in SETTINGS if isinstance(self.runtime.targets.get("main"), DspyTarget) else ():
            if (value := getattr(self.knobs, setting)) != self.knobs.knob(setting).default:
                raise UsageError(
                    f"The knob {setting} is a setting of targets of ragc; give it to the language model: "
                    f"dspy.LM(..., {setting}={value!r})."
                )
        self.most_calls()

    def _gate(self) -> None:
        """Lets all predictors with an LM of their own call it through the gateway."""
        for predictor in self._all_predictors:
            if predictor.lm is not None:
                predictor.lm = gate(predictor.lm, self.runtime)

    @cached_property
    def _all_predictors(self) -> list[dspy.Predict]:
        return [predictor for _, predictor in self.module.named_sub_modules(dspy.Predict)]

    @cached_property
    def _names(self) -> dict[Any, tuple[str, Any]]:
        """Name and predictor by identity, and by `stage` where no other predictor has it."""
        predictors = self.module.named_predictors()
        stages = Counter(predictor.stage for _, predictor in predictors)
        named = {p.stage: (name, p) for name, p in predictors if stages[p.stage] == 1}
        return named | {id(p): (name, p) for name, p in predictors}

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The inputs that the module takes by name, by those of its predictors where it takes any."""
        parameters = inspect.signature(self.flow_code).parameters
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        fields = (p.signature.input_fields for p in self._all_predictors if is_open)
        return frozenset(parameters).union(*fields)

    @cached_property
    def lm(self) -> Any:
        """The LM of predictors without one of their own."""
        knobs = self.knobs
        sampling = Sampling(temperature=knobs.temperature, top_p=knobs.top_p, max_tokens=knobs.max_tokens)
        return lm_of(self.runtime, sampling)

    @property
    def learned(self) -> dict[str, Any]:
        """Returns class and options of the adapter under which the program runs."""
        return {"adapter": adapters.to_json(self.adapter or dspy.settings.adapter or dspy.ChatAdapter())}

    @learned.setter
    def learned(self, value: Mapping[str, Any]) -> None:
        if value:
            self.adapter = adapters.from_json(value.get("adapter"))

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Returns the module's own parameters by their names in the module.

        Retrievers are left out: DSPy counts them as parameters and cannot save them.
        """
        return [(n, p) for n, p in self.module.named_parameters() if not isinstance(p, dspy.Retrieve)]

    def named_predictors(self) -> list[tuple[str, Any]]:
        """Returns the module's predictors by name; those that are marked `_compiled` stay as they are."""
        return [
            (name, predictor)
            for name, predictor in self.module.named_predictors()
            if predictor is self.module or not getattr(predictor, "_compiled", False)
        ]

    def named_calls(self) -> list[tuple[str, Any]]:
        """Returns what each predictor sends, by its name."""
        return [(name, OwnCall(self, name, predictor)) for name, predictor in self.named_predictors()]

    def load_state(self, state: dict[str, Any], **more: Any) -> None:
        """Loads DSPy's state of the module, its numbers included."""
        super().load_state(state, **more)
        numbers = numbers_of(self.module).items()
        self.knobs = replace(self.knobs, **{path: getattr(part, d.name) for path, (part, d) in numbers})

    def save(self, path: Any, save_program: bool = False, **more: Any) -> None:
        """Writes DSPy's state, or with `save_program` the user's module, which plain DSPy loads."""
        saved: Any = result_module(self) if save_program else super()
        saved.save(path, save_program=save_program, **more)

    def get_lm(self) -> Any:
        """Returns the LM of all predictors. Raises ValueError, as DSPy does, if they have different ones."""
        return super(RagProgram, self).get_lm() or context_lm() or self.lm

    @property
    def flow_code(self) -> Any:
        """The user's function that composes the calls."""
        cls = type(self.module)
        return getattr(cls, "forward", None) or cls.aforward

    def most_calls(self) -> int:
        """Returns the module's `most_calls`, else one for each predictor.

        Raises UsageError for no such number.
        """
        most = getattr(self.module, "most_calls", max(1, len(self.predictors())))
        number = most() if callable(most) else most
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UsageError(
                f"The module {type(self.module).__name__} gives {number!r} as most_calls; say the most calls "
                "of its predictors that a question takes, a whole number from 1."
            )
        return number

    def _check_call(self, args: Any, inputs: Mapping[str, Any]) -> None:
        if args:
            raise UsageError("A program is called with its inputs by their names.")

    def _name_calls(self) -> None:
        """Does nothing: the predictors are the user's."""

    async def aforward(self, **inputs: Any) -> dspy.Prediction:  # type: ignore[override]  # any inputs
        """Returns the module's prediction. A module whose caller has gone makes no more calls.

        Raises ParseFailure if the module fails, UsageError if it returns no prediction, and the error that
        ended its calls, also where the module caught it.
        """
        question = OwnQuestion(self._names)
        token = running.set(question)
        try:
            with dspy.track_usage() as tracker, dspy.context(**self._settings(question)):
                question.context = copy_context()
                reply = await self._run_module(inputs)
        except asyncio.CancelledError:
            question.gone = True
            raise
        except (Exception, SystemExit) as error:
            raise question.stopped or self._explained(error) from error
        finally:
            running.reset(token)
            for call in question.calls:  # of which no prediction was made
                question.record([call], {}, {"reply": call.text})
        if question.stopped is not None:
            raise question.stopped
        if not isinstance(reply, dspy.Prediction):
            raise UsageError(
                f"The module {type(self.module).__name__} must return a dspy.Prediction, and it returned "
                f"{type(reply).__name__}."
            )
        past = sum(map(len, tracker.usage_data.values())) - question.tracked
        if past > 0:  # a thread of DSPy's has a tracker of its own
            counters.count(ungated=past)
            trace.record(trace.Note("LM", f"{past} calls of an LM that the module calls by itself"))
        return reply

    def _settings(self, question: OwnQuestion) -> dict[str, Any]:
        """Returns DSPy's settings under which the module answers `question`."""
        self._gate()
        outer, chosen = context_lm(), {SETTING: question, "trace": Steps(question)}
        chosen["lm"] = self.lm if outer in (None, self.lm.ragc_lm) else gate(outer, self.runtime)
        if self._searches:
            chosen["rm"] = self._retrieve
        if self.adapter is not None and not refines():
            chosen["adapter"] = self.adapter  # Refine gives its advice by an adapter of its own
        return chosen

    async def _run_module(self, inputs: Mapping[str, Any]) -> Any:
        """Runs the module off the process's loop: `forward` in a thread, a coroutine on the users' loop.

        Texts are given with their markers defused, and not what a row has and the module does not take.
        """
        given = {
            name: escape_markers(value) if isinstance(value, str) else value
            for name, value in inputs.items()
            if name in self._taken or name not in CONTEXT
        }
        if not inspect.iscoroutinefunction(self.flow_code):
            if not event_loop.is_on_loop():
                return self.module(**given)
            limiter = anyio.CapacityLimiter(inf)  # code that waits for the loop must not hold the last thread
            call = partial(self.module, **given)
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
        run = self.module if hasattr(type(self.module), "forward") else self.module.acall

        async def awaited() -> Any:
            try:
                return await run(**given)
            except (SystemExit, asyncio.CancelledError) as error:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                raise RuntimeError(f"it ended with {error!r}") from error  # which would end the loop

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(awaited(), _own_loop()))

    def forward(self, *args: Any, **inputs: Any) -> dspy.Prediction:
        """Answers; a module whose `forward` is no coroutine runs in this thread, as in DSPy."""
        if inspect.iscoroutinefunction(self.flow_code) or loop_here() or dspy.settings.send_stream:
            return super().forward(*args, **inputs)
        self._check_call(args, inputs)
        return event_loop.step(self._run_recorded(self.aforward, inputs))

    def _explained(self, error: BaseException) -> BaseException:
        """Returns the error that ends the question: one of ours, or that of the module's own code."""
        if (own := cause(error)) is not None:
            return own
        if isinstance(error, AdapterParseError):
            fields = ", ".join(error.signature.output_fields)
            return ParseFailure(f"{error.adapter_name} found no {fields} in the reply.")
        name, frames = type(self.module).__name__, traceback.extract_tb(error.__traceback__)
        file = getattr(getattr(inspect.unwrap(self.flow_code), "__code__", None), "co_filename", "")
        lines = [frame.lineno for frame in frames if frame.filename == file]
        where, text = f" (line {lines[-1]})" if lines else "", str(error).strip().partition("\n")[0]
        return ParseFailure(
            f"The module {name} raised {type(error).__name__}{f': {text}' if text else ''}{where}; correct "
            "it, or catch that."
        )

    def _retrieve(self, query: Any, k: int | None = None, **more: Any) -> list[Any]:
        """Returns the hits of the source `local` to `dspy.Retrieve`, best first, each with `long_text`."""
        current()
        hits = event_loop.run(self.search("local", str(query), 3 if k is None else int(k)))
        return [SimpleNamespace(long_text=_shown(hit.passage), passage=hit.passage) for hit in hits]

    def shown_passages(self, prediction: dspy.Prediction) -> tuple[Passage, ...]:
        """Returns the field `passages` as passages: known by their text, or made of it."""
        searches = [event for event in prediction["trace"] if isinstance(event, trace.Search)]
        known = {_shown(hit.passage): hit.passage for event in searches for hit in event.hits}
        listed = prediction.get("passages")
        items = listed if isinstance(listed, list | tuple) else () if listed is None else (listed,)
        return tuple(_passage(getattr(item, "passage", item), known) for item in items)


def _shown(passage: Passage) -> str:
    return escape_markers(format_passage(passage))


def _passage(item: Any, known: Mapping[str, Passage]) -> Passage:
    if isinstance(item, Passage):
        return item
    fields = item if isinstance(item, Mapping) else {}
    text = str(fields.get("text", getattr(item, "long_text", item)))
    id = str(fields.get("id") or digest(text)[:16])
    return known.get(text) or Passage(id, str(fields.get("title") or ""), text)


def copied(module: dspy.Module) -> dspy.Module:
    """Returns a copy of `module` that shares its LMs, and what cannot be copied, such as locks."""
    shared: dict[int, Any] = {}
    for _, part in module.named_sub_modules():
        for value in vars(part).values():
            try:
                if isinstance(value, dspy.BaseLM):
                    shared[id(value)] = value
                elif not isinstance(value, dspy.Module | list | dict | tuple):
                    copy.deepcopy(value)
            except Exception:
                shared[id(value)] = value
    twin = copy.deepcopy(module, shared)
    for (_, old), (_, new) in zip(module.named_sub_modules(), twin.named_sub_modules(), strict=True):
        new.callbacks = list(old.callbacks)  # which DSPy leaves out of copies
    return twin


def result_module(program: OwnProgram) -> dspy.Module:
    """Returns the user's module with the state of `program`, on the user's own LM objects."""
    module = copied(program.module)
    for _, predictor in module.named_sub_modules(dspy.Predict):
        if isinstance(predictor.lm, Gated):
            predictor.lm = predictor.lm.ragc_lm
        predictor.demos = [dspy.Example(demo) if isinstance(demo, dict) else demo for demo in predictor.demos]
    return module


def saved_demo(predictor: dspy.Predict, demo: Any) -> dict[str, Any] | None:
    """Returns `demo` as DSPy's state gives it back; None where no file holds it, or it reads otherwise."""
    holder = dspy.Predict(predictor.signature)
    holder.demos = [dspy.Example(**dict(demo.items()))]
    try:
        saved: dict[str, Any] = orjson.loads(orjson.dumps(holder.dump_state()["demos"][0]))
        adapter = dspy.settings.adapter or dspy.ChatAdapter()
        shown = [adapter.format(predictor.signature, [d], {}) for d in (holder.demos[0], saved)]
    except Exception:
        return None
    return saved if shown[0] == shown[1] else None


@cache
def _own_loop() -> asyncio.AbstractEventLoop:
    """Returns the one loop of users' coroutines, so that a client of a loop may be kept between questions."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ragc-own-loop", daemon=True).start()
    return loop
