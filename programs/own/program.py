"""OwnProgram: a user's DSPy module whose predictors are typed calls of ours."""

from __future__ import annotations

import asyncio
import copy
import inspect
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import dspy
from dspy.dsp.utils.settings import thread_local_overrides

from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.text import repair_surrogates
from ragc.errors import ParseFailure, RagcError, RequestRefused, UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.calls.chosen_lm import own_lm
from ragc.programs.knobs import ADAPTER, Knobs
from ragc.programs.own import adapters
from ragc.programs.own.calls import SETTING, OwnPredict, Running, current, running
from ragc.programs.own.modules import check, entry_of, function_of, instance_of, replace_predictors
from ragc.programs.own.threads import in_thread, on_own_loop
from ragc.programs.runtime import Runtime
from ragc.programs.saved_settings import NAME, settings_of
from ragc.records import Hit, Passage
from ragc.targets.base import Sampling
from ragc.targets.dspy_lm import cause

CALLS_PER_PREDICTOR = 16
"""Calls of each predictor for one question, at most, where a module does not say `most_calls`."""

_OURS = frozenset({"trace", "counters", "tallies", "candidates"})
"""Fields of predictions that programs of ours fill in."""


class OwnProgram(RagProgram):
    """The user's `module`, called with the question and the other fields of its row that `forward` names.

    Its predictors use the target main, through store, budget and replay; so do predictors that its code
    creates while it runs, which are not compiled. `dspy.Retrieve` inside it searches the source `local`, or
    the retriever of `dspy.configure(rm=...)` if there is none. It must return `answer`; `passages`, texts or
    passages, are those it showed. A synchronous `forward` has a thread of its own, an `aforward` a loop of
    its own, so that neither blocks other questions. An error that it raises leaves the question without an
    answer. `most_calls` of the module, a number or a method, says how many calls of predictors a question
    takes; more are refused.
    """

    def __init__(self, runtime: Runtime, knobs: Knobs, module: dspy.Module, adapter: Any = None) -> None:
        super().__init__(runtime, knobs)
        self._adapter = self._storable(adapter)
        self._searches = "local" in runtime.sources
        check(module, retriever=self._searches or dspy.settings.rm is not None)
        replace_predictors(module, self._typed)
        self.module = module
        self._lm: Any = None
        self.most_calls()

    @classmethod
    def of(cls, name: str, module: Any, runtime: Runtime, knobs: Knobs, adapter: Any = None) -> OwnProgram:
        """Returns the program `name` of `module`, a class or an instance that is copied. Raises UsageError.

        `adapter` makes its prompts if the knob `layout` names it.
        """
        return cls(runtime, knobs, instance_of(name, module, knobs), adapter)

    def _storable(self, adapter: Any) -> Any:
        """Returns `adapter` if it makes the knob's layout, else the configured one, or None.

        Raises UsageError for a layout without one.
        """
        if adapter is not None and adapters.layout_of(adapter) == self.knobs.layout:
            return adapter
        return adapters.configured() if self.knobs.layout == ADAPTER else None

    @property
    def adapter(self) -> Any:
        """The DSPy adapter that makes the prompts; None if one of ragc's layouts does."""
        return self._adapter

    @property
    def learned(self) -> dict[str, Any]:
        """Returns class and options of the adapter that makes the prompts, if there is one."""
        return {} if self._adapter is None else {ADAPTER: adapters.to_json(self._adapter)}

    @learned.setter
    def learned(self, value: Mapping[str, Any]) -> None:
        if not value:
            return
        if value.keys() != {ADAPTER} or not isinstance(value[ADAPTER], Mapping):
            raise UsageError(f"A module learns nothing but its adapter, found {', '.join(map(repr, value))}.")
        if self._adapter is None or adapters.to_json(self._adapter) != dict(value[ADAPTER]):
            self._adapter = self._storable(adapters.from_json(value[ADAPTER]))
            for call in self.predictors():
                call.adapter, call._rendered = self._adapter, None

    def save(self, path: Any, *args: Any, **more: Any) -> None:
        """Writes DSPy's state, which the module loads in plain DSPy.

        Warns if it would run there differently from how it was measured: under another adapter, or with
        demonstrations that are chosen by the question.
        """
        for text in self._differs_in_dspy():
            warnings.warn(text, stacklevel=2)
        super().save(path, *args, **more)

    def _differs_in_dspy(self) -> Iterator[str]:
        present = adapters.configured()
        if self._adapter is None and adapters.layout_of(present) != self.knobs.layout:
            yield (
                f"This program was measured in the layout {self.knobs.layout!r}, and in plain DSPy its state "
                f"runs under {adapters.shown(present)}, with prompts that were not measured; compile the "
                "module itself without searching `layout`, or run it with ragc."
            )
        if self._adapter is not None and adapters.to_json(present) != adapters.to_json(self._adapter):
            yield (
                f"This program was measured under {adapters.shown(self._adapter)}, and DSPy is configured "
                f"with {adapters.shown(present)}; name the first with dspy.configure(adapter=...) where the "
                "state is loaded."
            )
        if any(call.nearest for call in self.predictors()):
            yield (
                "This program chooses its demonstrations by the question, which plain DSPy cannot; compile "
                'it without "nearest" in demo_kinds, or run it with ragc.'
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnProgram:
        """Rebuilds the program with this one's state: the user's class knows what must be its own."""
        twin = cast(OwnProgram, self.method.build(self.runtime, self.knobs))
        memo[id(self)], twin._adapter = twin, self._adapter
        mine = dict(self.named_predictors())
        for name, call in twin.named_predictors():
            call.__dict__.update(copy.deepcopy(mine[name]).__dict__)
        twin._compiled = self._compiled
        return twin

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Returns the settings, and the module's own parameters by their names in the module.

        Retrievers are left out: DSPy counts them as parameters and cannot save them.
        """
        own = [
            (name, one) for name, one in self.module.named_parameters() if not isinstance(one, dspy.Retrieve)
        ]
        return [(NAME, settings_of(self)), *own]

    def named_predictors(self) -> list[tuple[str, Any]]:
        """Returns the module's predictors by their names in the module."""
        return list(self.module.named_predictors())

    @property
    def flow_code(self) -> Any:
        """The user's function that composes the calls."""
        return function_of(self.module)

    def _typed(self, predictor: dspy.Predict) -> OwnPredict:
        """Returns a typed call that replaces `predictor`, with its LM, demonstrations and sampling."""
        config, knobs = dict(predictor.config), self.knobs
        most = config.pop("max_tokens", None) or knobs.max_tokens
        call = OwnPredict(
            predictor.signature,
            self.runtime,
            layout=knobs.layout,
            sampling=Sampling(temperature=knobs.temperature, top_p=knobs.top_p, max_tokens=most),
            max_demos=knobs.icl_n,
        )
        call.config, call.demos, call.lm = config, predictor.demos, predictor.lm
        call.adapter = self._adapter
        return call

    def most_calls(self) -> int:
        """Returns the module's `most_calls`, else CALLS_PER_PREDICTOR for each predictor.

        Raises UsageError for no such number.
        """
        most = getattr(self.module, "most_calls", None)
        if most is None:
            return CALLS_PER_PREDICTOR * max(1, len(self.predictors()))
        number = most() if callable(most) else most
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UsageError(
                f"The module {type(self.module).__name__} gives {number!r} as most_calls; say the most calls "
                "of its predictors that a question takes, a whole number from 1."
            )
        return number

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Returns the module's answer.

        Raises UsageError if it gives no `answer` or makes too many calls, ParseFailure if it fails on this
        question, and the error that ended its calls.
        """
        takes = inspect.signature(self.flow_code).parameters
        inputs = {"question": question, **{name: one for name, one in context.items() if name in takes}}
        name, says = type(self.module).__name__, getattr(self.module, "most_calls", None) is not None
        held = Running(name, self.most_calls(), says)
        chosen: dict[str, Any] = {} if thread_local_overrides.get().get("lm") else {"lm": self._own_lm()}
        if self._searches:
            chosen["rm"] = self._retrieve
        outer = thread_local_overrides.get().get("adapter")
        if self._adapter is not None and type(outer).__module__ != "dspy.predict.refine":
            chosen[ADAPTER] = self._adapter
        token = running.set(held)
        try:
            with dspy.context(**chosen, **{SETTING: held}):
                held.context = copy_context()
                if entry_of(self.module) == "aforward" or inspect.iscoroutinefunction(self.flow_code):
                    reply = await on_own_loop(self._await_module(held, inputs))
                else:
                    reply = await in_thread(lambda: self._call_module(held, inputs))
        except asyncio.CancelledError:
            held.cancelled = True
            raise
        finally:
            running.reset(token)
        if held.stopped is not None:
            raise held.stopped
        return self._prediction(reply, held)

    def _own_lm(self) -> Any:
        """Returns the program's targets as an LM, for predictors that the module creates while it runs."""
        if self._lm is None:
            self._lm = own_lm(self.runtime)
        return self._lm

    def _call_module(self, held: Running, inputs: Mapping[str, Any]) -> Any:
        try:
            return self.module(**inputs)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._raise(held, error)

    async def _await_module(self, held: Running, inputs: Mapping[str, Any]) -> Any:
        try:
            if entry_of(self.module) == "aforward":
                return await self.module.acall(**inputs)
            return await self.module(**inputs)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._raise(held, error)
        except BaseException as error:
            self._raise(held, error)

    def _raise(self, held: Running, error: BaseException) -> NoReturn:
        """Raises the error that ends the question: one of ours, or that of the module's own code."""
        if held.stopped is not None:
            raise held.stopped
        if not isinstance(error, RagcError) and isinstance(refusal := cause(error), RequestRefused):
            raise refusal from error
        if isinstance(error, RagcError):
            raise error
        code = getattr(inspect.unwrap(self.flow_code), "__code__", None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if code and frame.filename == code.co_filename]
        where = f" (line {lines[-1]})" if lines else ""
        text = str(error).strip().partition("\n")[0]
        raise ParseFailure(
            f"The module {held.name} raised {type(error).__name__}{f': {text}' if text else ''}{where}; mend "
            "it, or catch that."
        ) from error

    def _prediction(self, reply: Any, held: Running) -> dspy.Prediction:
        """Returns the prediction of a program, made of the module's result."""
        outputs = dict(reply.items()) if isinstance(reply, dspy.Prediction) else {}
        if "answer" not in outputs:
            fields = ", ".join(outputs) if outputs else type(reply).__name__
            raise UsageError(
                f"The module {held.name} must give `answer`, and it gave {fields}; return "
                "dspy.Prediction(answer=...)."
            )
        answer = outputs["answer"]
        if isinstance(answer, list | tuple):
            answer = ", ".join(map(str, answer))
        passages = tuple(_passages(outputs.get("passages"), held.hits))
        own = {name: value for name, value in outputs.items() if name not in _OURS}
        text = "" if answer is None else repair_surrogates(str(answer))
        return dspy.Prediction(**{**own, "answer": text, "passages": passages})

    def _retrieve(self, query: Any, k: int | None = None, **more: Any) -> list[Any]:
        """Returns the hits of the source `local` to `dspy.Retrieve`, best first.

        Each has `long_text`, the passage as in a prompt, and `passage`.
        """
        held = current()

        def search() -> tuple[Hit, ...]:
            return event_loop.run(self.search("local", str(query), 3 if k is None else int(k)))

        if held is None:
            results = search()
        else:
            with held.watch():
                results = held.join(search)
        passages = [
            SimpleNamespace(long_text=format_passage(hit.passage), passage=hit.passage) for hit in results
        ]
        if held is not None:
            held.hits.update({one.long_text: one.passage for one in passages})
        return passages


def _passages(items: Any, hits: Mapping[str, Passage]) -> Iterable[Passage]:
    """Yields the items that a module reports as shown: hits by their text, other items by their content."""
    listed = items if isinstance(items, list | tuple) else () if items is None else (items,)
    for item in listed:
        held = getattr(item, "passage", item)
        if isinstance(held, Passage):
            yield held
        elif isinstance(item, Mapping) and "text" in item:
            text = str(item["text"])
            yield Passage(str(item.get("id") or digest(text)[:16]), str(item.get("title") or ""), text)
        else:
            text = str(getattr(item, "long_text", item))
            yield hits.get(text) or Passage(digest(text)[:16], "", text)
