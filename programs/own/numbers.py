"""Numbers, switches and choices of a user's module: declared on a class, read as plain attributes.

    class MyProgram(dspy.Module):
        passages = ragc.number(3, 1, 10, "passages shown")

`self.passages` is 3 until something else is assigned. In an instance the value is a parameter of DSPy, so
that `save`, `load` and copies of plain DSPy restore it.
"""

from __future__ import annotations

import math
from typing import Any

import dspy
from dspy.predict.parameter import Parameter

from ragc.errors import UsageError
from ragc.programs import knobs as declared
from ragc.programs.knobs import Knob


class Slot(Parameter):
    """The value of one declared number in one instance, in DSPy's state `{"value": ...}`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def reset(self) -> None:
        """Does nothing: DSPy's optimizers reset what they set anew, and a number is no demonstration."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Returns the value by name."""
        return {"value": self.value}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes the value of `state`."""
        self.value = state["value"]


class Declared:
    """A number, switch or choice as an attribute of a class; the class itself gives its default."""

    def __init__(self, field: Any) -> None:
        self.knob: Knob = field.metadata["knob"]
        self.name = ""

    def __set_name__(self, owner: Any, name: str) -> None:
        before, self.name = owner.__new__, name

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            instance = before(cls) if before is object.__new__ else before(cls, *args, **kwargs)
            instance.__dict__[name] = Slot(self.knob.default)
            return instance

        owner.__new__ = staticmethod(new)  # an instance has its slots before any __init__ runs

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.knob.default if instance is None else instance.__dict__[self.name].value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value if isinstance(value, Slot) else Slot(value)


def numbers_of(module: dspy.Module) -> dict[str, tuple[Any, Declared]]:
    """Returns the module and the declaration of each number in `module`, by its path, such as `inner.k`.

    Those of parts that are marked `_compiled` stay as they are and are left out.
    """
    found: dict[str, tuple[Any, Declared]] = {}
    for path, part in module.named_sub_modules(skip_compiled=True):
        if part is module or not getattr(part, "_compiled", False):
            for name, slot in vars(part).items():
                if isinstance(slot, Slot):
                    declaration = next(vars(cls)[name] for cls in type(part).__mro__ if name in vars(cls))
                    found[f"{path}.{name}".removeprefix("self.")] = (part, declaration)
    return found


def number(
    default: Any, low: Any = None, high: Any = None, about: str = "", *, step: Any = None, **more: Any
) -> Any:
    """Declares a number in [low, high] that may be searched, in steps of `step`; whole if all of these are.

    Whole numbers have steps of 1 unless `step` says otherwise. Raises UsageError for a default that is no
    number, or without a range.
    """
    written = f"ragc.number({default!r}, {low!r}, {high!r})"
    if low is None or high is None:
        raise UsageError(
            f"ragc.number({default!r}) has no range; say between which numbers it may be, such as "
            "ragc.number(3, 1, 10, 'passages shown')."
        )
    bounds = [default, low, high] if step is None else [default, low, high, step]
    for value in bounds:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(f"{written} holds {value!r}, which is no number; write one, such as 3 or 0.5.")
    if not low <= default <= high or low == high or (step is not None and step <= 0):
        raise UsageError(
            f"{written} has a range that its default does not lie in, or that is empty; write default, low "
            "and high with low <= default <= high and low < high, and a step above 0."
        )
    if all(isinstance(value, int) for value in bounds):
        return Declared(declared.integer(default, low, high, about, step=step or 1, **more))
    return Declared(declared.real(default, low, high, about, step=step, **more))


def switch(default: Any, about: str = "", **more: Any) -> Any:
    """Declares an option that is on or off, and may be searched.

    Raises UsageError for a default that is neither True nor False.
    """
    if not isinstance(default, bool):
        raise UsageError(f"ragc.switch({default!r}) is neither True nor False; write one of them.")
    return Declared(declared.switch(default, about, **more))


def choice(default: Any, options: Any = (), about: str = "", **more: Any) -> Any:
    """Declares one of `options` (texts, numbers or truth values), which may be searched.

    Raises UsageError if there are none, or the default is not among them.
    """
    listed = tuple(options) if isinstance(options, tuple | list) else ()
    if not listed or not all(isinstance(option, str | int | float) for option in listed):
        raise UsageError(
            f"ragc.choice({default!r}, {options!r}) has no options; list texts or numbers, such as "
            "ragc.choice('short', ('short', 'long'), 'how the answer is worded')."
        )
    if not any(type(option) is type(default) and option == default for option in listed):
        raise UsageError(
            f"ragc.choice({default!r}, {options!r}) has a default that is not among its options; add it."
        )
    return Declared(declared.choice(default, listed, about, **more))
