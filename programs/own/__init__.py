"""Programs of the user's own: any DSPy module, with its own signatures and control flow, as a method.

A recipe names one as `program = "my_module:MyProgram"`, a class that is built without arguments. Numbers and
switches that may be searched are declared on the class:

    class MyProgram(dspy.Module):
        passages = ragc.number(3, 1, 10, "passages shown")
        double = ragc.switch(False, "check the answer once more")

Read as `self.passages`, a declared value is its default wherever the module runs without ragc. Nothing is
imported but by `own_method`, which callers use for recipes that the user named; `registered` finds what was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core.user_code import load_object
from ragc.errors import UnknownName, UsageError
from ragc.programs import knobs as declared
from ragc.programs.knobs import AnswerKnobs, Knob, Knobs, redeclare
from ragc.programs.method import Method

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.runtime import Runtime


class Declared:
    """A declared knob as an attribute of a class: its default, until something else is assigned."""

    def __init__(self, field: Any) -> None:
        self.knob: Knob = field.metadata["knob"]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.knob.default


def number(default: float, low: float, high: float, about: str, **more: Any) -> Any:
    """A number in [low, high] that may be searched; whole where all three are."""
    whole = all(type(value) is int for value in (default, low, high))
    field = declared.integer if whole else declared.real
    return Declared(field(default, low, high, about, **more))  # type: ignore[operator]


def switch(default: bool, about: str, **more: Any) -> Any:
    """Something that is on or off, and may be searched."""
    return Declared(declared.switch(default, about, **more))


def choice(default: Any, options: tuple[Any, ...], about: str, **more: Any) -> Any:
    """One of `options`, which may be searched."""
    return Declared(declared.choice(default, options, about, **more))


@dataclass(frozen=True)
class OwnKnobs(Knobs):
    """What every program of the user's own has beside its declared values."""

    temperature: float = redeclare(AnswerKnobs, "temperature")
    top_p: float = redeclare(AnswerKnobs, "top_p")
    icl_n: int = redeclare(AnswerKnobs, "icl_n")
    layout: str = redeclare(AnswerKnobs, "layout")
    max_tokens: int = declared.integer(512, 16, 8192, "tokens of a reply at most", searched=False)


@dataclass(frozen=True, slots=True)
class OwnMethod(Method):
    """The record of a user's module: `module` is its class, or an instance that is copied."""

    module: Any = None

    def build(self, runtime: Runtime, knobs: Knobs | Mapping[str, Any] | None = None) -> RagProgram:
        """The module on `runtime` with `knobs` over the declared defaults. Raises UsageError."""
        from ragc.programs.own.program import OwnProgram, instance_of

        runtime.require(self)
        chosen = knobs if isinstance(knobs, Knobs) else self.knobs.of(knobs or {})
        program = OwnProgram(runtime, chosen, instance_of(self, chosen))
        program.method = self
        return program


_registered: dict[str, OwnMethod] = {}


def own_method(reference: str, base: Path) -> OwnMethod:
    """The method that `reference` names, imported from `base` first.

    Raises UsageError where it cannot be imported, or is no class of a DSPy module.
    """
    import dspy

    cls = load_object(reference, base)
    if not isinstance(cls, type) or not issubclass(cls, dspy.Module):
        kind = cls.__name__ if isinstance(cls, type) else type(cls).__name__
        raise UsageError(
            f"The program {reference!r} is {kind}, no class of a dspy.Module; name a class that derives from "
            "dspy.Module."
        )
    return register(reference, cls)


def register(name: str, module: Any) -> OwnMethod:
    """The method `name` of `module`, a class or an instance, known to `registered` from now on."""
    cls = module if isinstance(module, type) else type(module)
    values: dict[str, Declared] = {}
    for base in reversed(cls.__mro__):
        values |= {key: value for key, value in vars(base).items() if isinstance(value, Declared)}
    taken = [knob.name for knob in OwnKnobs.list_knobs() if knob.name in values]
    if taken:
        raise UsageError(
            f"The program {name!r} declares {taken[0]!r}, which every program has already; call it otherwise."
        )
    types = {"int": int, "float": float, "switch": bool, "choice": str}
    fields = [
        (key, types[value.knob.kind], dataclasses.field(default=value.knob.default, metadata={"knob": value.knob}))
        for key, value in values.items()
    ]  # fmt: skip
    knobs: Any = dataclasses.make_dataclass(f"{cls.__name__}Knobs", fields, bases=(OwnKnobs,), frozen=True)
    about = (cls.__doc__ or "a module of the user's own").strip().partition("\n")[0]
    method = OwnMethod(
        name, about, "the user's own", "ragc.programs.own.program:OwnProgram", knobs,
        optional_sources=("local", "web", "kg"), module=module,
    )  # fmt: skip
    _registered[name] = method
    return method


def registered(name: str) -> OwnMethod:
    """The method that was registered as `name`; raises UnknownName, and imports nothing."""
    if name not in _registered:
        raise UnknownName("program of your own that was loaded", name, _registered)
    return _registered[name]
