"""OwnProgram: a user's DSPy module whose predictors are typed calls of ours."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import dspy

from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.errors import RagcError, UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import Knobs
from ragc.programs.own import OwnKnobs, OwnMethod
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.targets.base import Sampling


def instance_of(method: OwnMethod, knobs: Knobs) -> dspy.Module:
    """The module of `method` with its declared values; `__init__` of a class sees them already.

    Raises UsageError where the class cannot be built without arguments.
    """
    shared = {knob.name for knob in OwnKnobs.list_knobs()}
    values = {name: value for name, value in knobs.to_json().items() if name not in shared}
    if not isinstance(method.module, type):
        twin = method.module.deepcopy()
        for name, value in values.items():
            setattr(twin, name, value)
        return twin
    cls = method.module
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    try:
        return type(cls)(cls.__name__, (cls,), {**names, **values})()
    except RagcError:
        raise
    except Exception as error:
        raise UsageError(
            f"The program {method.id!r} cannot be built without arguments: {type(error).__name__}: {error}; "
            "give every argument of __init__ a default."
        ) from error


class OwnProgram(RagProgram):
    """The user's `module`, called with the question and what else of its row `forward` takes.

    Its predictors go to the target main, through store, budget and replay; `dspy.Retrieve` inside it searches
    the source `local`. It must give `answer`; `passages`, texts or passages, are what it showed. A module that
    calls its predictors more than once says how often in all as its attribute `most_calls`.
    """

    def __init__(self, runtime: Runtime, knobs: Knobs, module: dspy.Module) -> None:
        super().__init__(runtime, knobs)
        predictors = module.named_predictors()
        name = type(module).__name__
        if not predictors:
            raise UsageError(f"The module {name} has no predictors to compile; add a dspy.Predict.")
        if any(isinstance(predictor, RagPredict) for _, predictor in predictors):
            raise UsageError(f"The module {name} holds a program of ragc; compile that one by itself.")
        module.map_named_predictors(self._typed)
        self.module = module

    def _typed(self, predictor: dspy.Predict) -> RagPredict:
        config = {key: value for key, value in predictor.config.items() if key in Sampling.__slots__}
        call = self.predictor(
            predictor.signature, max_tokens=config.pop("max_tokens", None) or self.knobs.max_tokens
        )
        call.config, call.demos = config, predictor.demos
        return call

    def most_calls(self) -> int:
        """What the module says, else one call for each predictor."""
        most = getattr(self.module, "most_calls", None)
        return most if isinstance(most, int) else super().most_calls()

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """What the module answers. Raises UsageError where it gives no `answer`."""
        runs_async = callable(getattr(type(self.module), "aforward", None))
        called = self.module.aforward if runs_async else self.module.forward
        takes = inspect.signature(called).parameters.values()
        takes_all = any(one.kind is one.VAR_KEYWORD for one in takes)
        names = {one.name for one in takes}
        inputs = {
            name: value
            for name, value in {"question": question, **context}.items()
            if takes_all or name in names
        }
        with dspy.context(rm=self._retrieve):
            if runs_async:
                reply = await self.module.acall(**inputs)
            else:
                reply = await asyncio.to_thread(self.module, **inputs)
        answer = getattr(reply, "answer", None)
        if answer is None:
            fields = ", ".join(reply.keys()) if isinstance(reply, dspy.Prediction) else type(reply).__name__
            raise UsageError(
                f"The module {type(self.module).__name__} must give `answer`, and it gave {fields}; return "
                "dspy.Prediction(answer=...)."
            )
        outputs = dict(reply.items()) if isinstance(reply, dspy.Prediction) else {}
        passages = _passages(outputs.get("passages") or ())
        return dspy.Prediction(**{**outputs, "answer": str(answer), "passages": passages})

    def _retrieve(self, query: str, k: int = 3, **more: Any) -> list[Any]:
        """What `dspy.Retrieve` asks for: the texts of the source `local`."""
        hits = event_loop.run(self.search("local", query, k))
        return [SimpleNamespace(long_text=format_passage(hit.passage), passage=hit.passage) for hit in hits]


def _passages(items: Sequence[Any]) -> tuple[Passage, ...]:
    """What a module says it showed, as passages."""
    return tuple(item if isinstance(item, Passage) else _text_passage(str(item)) for item in items)


def _text_passage(text: str) -> Passage:
    return Passage(digest(text)[:16], "", text)
