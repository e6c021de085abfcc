"""A user's module: built or copied, checked, and its predictors replaced by typed calls."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import dspy

from ragc.errors import RagcError, UsageError
from ragc.programs.knobs import Knobs
from ragc.programs.own import Declared, OwnKnobs
from ragc.programs.own.calls import OwnPredict

ROW = ("question", "id", "context_ids", "query_time", "domain", "sub_questions")
"""What a question gives to a module; the others than the question are absent where they are empty."""

_KEY = re.compile(r"[\w.'\[\] -]+")


class PredictModule(dspy.Module):
    """A single predictor as a module, whose parts can be replaced."""

    def __init__(self, predict: dspy.Predict) -> None:
        super().__init__()
        self.predict = predict
        inputs = list(predict.signature.input_fields)
        if inputs != ["question"]:
            raise UsageError(
                f"The predictor takes {', '.join(inputs) or 'nothing'}, and alone it is given a question; "
                "call its one input `question`, or put what makes its inputs into a dspy.Module around it."
            )

    def forward(self, question: str) -> Any:
        """Returns the predictor's prediction."""
        return self.predict(question=question)


def instance_of(name: str, module: Any, knobs: Knobs) -> dspy.Module:
    """Returns `module`, an instance or its class, with its declared values, which `__init__` sees already.

    A predictor becomes a module that calls it. Raises UsageError if the class cannot be built without
    arguments.
    """
    built = _instance_of(name, module, knobs)
    plain = isinstance(built, dspy.Predict) and not hasattr(built, "runtime") and not overrides_call(built)
    return PredictModule(built) if plain else built


def overrides_call(predictor: dspy.Predict) -> bool:
    """Returns whether the class of `predictor` calls a model in another way than dspy.Predict."""
    cls = type(predictor)
    return any(getattr(cls, part) is not getattr(dspy.Predict, part) for part in ("forward", "aforward"))


def _instance_of(name: str, module: Any, knobs: Knobs) -> dspy.Module:
    shared = {knob.name for knob in OwnKnobs.list_knobs()}
    values = {name: value for name, value in knobs.to_json().items() if name not in shared}
    if not isinstance(module, type):
        twin = _copy(module)
        for key, value in values.items():
            setattr(twin, key, value)
        return twin
    cls: Any = module
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    try:
        built: dspy.Module = type(cls)(cls.__name__, (cls,), {**names, **values})()
    except RagcError:
        raise
    except Exception as error:
        needed = isinstance(error, TypeError) and "argument" in str(error)
        raise UsageError(
            f"The program {name!r} cannot be built without arguments: {type(error).__name__}: {error}; "
            f"{'give every argument of __init__ a default' if needed else 'mend its __init__'}."
        ) from error
    return built


def _copy(module: dspy.Module) -> dspy.Module:
    """Copies `module`; the copy shares only parts that cannot be copied, such as locks and clients."""
    shared: dict[int, Any] = {}
    for value in _attributes(module, set()):
        try:
            copy.deepcopy(value)
        except Exception:
            shared[id(value)] = value
    return copy.deepcopy(module, shared)


def _attributes(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yields what modules hold beside modules and predictors, in lists, tuples and dictionaries too."""
    if id(value) in seen or isinstance(value, dspy.Predict):
        return
    seen.add(id(value))
    if isinstance(value, dspy.Module):
        inside: Any = vars(value).values()
    elif type(value) in (list, tuple):
        inside = value
    elif type(value) is dict:
        inside = value.values()
    else:
        yield value
        return
    for one in list(inside):
        yield from _attributes(one, seen)


def replace_predictors(module: dspy.Module, change: Callable[[dspy.Predict], OwnPredict]) -> None:
    """Replaces every predictor of `module` by `change(predictor)`, in place.

    Frozen modules' predictors are changed too. It is done in place, so that bound methods, of which tools may
    be made, call the new ones.
    """
    changed: dict[int, Any] = {}
    alive: list[Any] = []

    def of(value: Any) -> Any:
        if id(value) in changed:
            return changed[id(value)]
        if isinstance(value, dspy.Predict):
            alive.append(value)  # so that no other object gets its id
            changed[id(value)] = new = change(value)
            return new
        if isinstance(value, dspy.Module | list | dict) and id(value) not in changed:
            changed[id(value)] = value
        if isinstance(value, dspy.Module):
            for name, one in list(vars(value).items()):
                if (new := of(one)) is not one:
                    setattr(value, name, new)
        elif type(value) is list:
            value[:] = [of(one) for one in value]
        elif type(value) is dict:
            value.update({key: of(one) for key, one in value.items()})
        elif type(value) is tuple:
            items = tuple(map(of, value))
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return value

    of(module)


def check(module: dspy.Module, *, retriever: bool) -> None:
    """Raises UsageError if `module` cannot be compiled, saying what to change.

    `retriever` says whether there is a source for dspy.Retrieve.
    """
    name = type(module).__name__
    predictors = module.named_predictors()
    if not predictors:
        raise UsageError(f"The module {name} has no predictors to compile; add a dspy.Predict.")
    for where, one in predictors:
        if hasattr(one, "runtime"):
            raise UsageError(f"The module {name} holds a program of ragc; compile that one by itself.")
        if overrides_call(one):
            raise UsageError(
                f"The predictor {where!r} of {name} is a {type(one).__name__}, which changes how "
                "dspy.Predict calls a model; put what it does into a dspy.Module around a dspy.Predict."
            )
        if not _KEY.fullmatch(where):
            raise UsageError(
                f"The predictor {where!r} of {name} has a name that no file can have; use letters, digits, "
                "spaces, dots, - and _ in the keys of its dictionary."
            )
    for where, part in module.named_sub_modules():
        held = vars(part).items() if isinstance(part, dspy.Module) else ()
        for key, value in held:
            if isinstance(value, Declared):
                raise UsageError(
                    f"{name} declares {key!r} in __init__ ({where}), where it stays no number; declare it on "
                    f"the class: {key} = ragc.number(...)."
                )
        if isinstance(part, dspy.Module):
            for value in vars(part).values():
                if isinstance(value, dspy.Retrieve) and not retriever:
                    raise UsageError(
                        f"{name} searches with dspy.Retrieve, and there is no source named 'local'; add "
                        "[sources.local] to the recipe, or pass local= or dspy.configure(rm=...)."
                    )
    _check_inputs(name, module)


def _check_inputs(name: str, module: dspy.Module) -> None:
    if not entry_of(module):
        raise UsageError(f"The module {name} has no forward; define forward(self, question).")
    takes = inspect.signature(function_of(module)).parameters
    kinds = {one.kind for one in takes.values()}
    if "question" not in takes and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise UsageError(
            f"The forward of {name} takes {', '.join(takes) or 'nothing'}, and a question is passed as "
            "`question`; call the input so."
        )
    for key, one in takes.items():
        free = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or one.default is not one.empty
        if not free and (one.kind is one.POSITIONAL_ONLY or key != "question"):
            why = "which is passed by its name" if key in ROW else "which no question has"
            raise UsageError(
                f"The forward of {name} needs {key!r}, {why} ({', '.join(ROW)} are passed); give it a "
                "default."
            )


def function_of(module: dspy.Module) -> Any:
    """Returns the bound method that answers, not by its attribute: DSPy warns of direct calls of it."""
    return getattr(type(module), entry_of(module)).__get__(module, type(module))


def entry_of(module: dspy.Module) -> str:
    """Returns the name of the method that answers: forward, or aforward of a class that defines only that.

    The first class in the module's inheritance order decides; "" if none defines either.
    """
    for cls in type(module).__mro__:
        for name in ("forward", "aforward"):
            if name in vars(cls) and cls is not dspy.Module:
                return name
    return ""
