"""The user's own programs: any DSPy module, with its own signatures and control flow, as a method.

A recipe names one as `program = "my_module:MyProgram"`, a class that is built without arguments. Numbers,
switches and choices that may be searched are declared on the class:

    class MyProgram(dspy.Module):
        passages = ragc.number(3, 1, 10, "passages shown")
        double = ragc.switch(False, "check the answer once more")

Read as `self.passages`, a declared value is its default wherever the module runs without ragc. Only
`own_method`, which is for names that the user typed, imports modules; `registered` finds imported ones.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ragc.core.files import sha256
from ragc.core.user_code import code_digest, explained, load_object, named
from ragc.errors import UsageError
from ragc.programs import knobs as declared
from ragc.programs.knobs import ADAPTER, LAYOUTS, AnswerKnobs, Knob, Knobs, redeclare
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
    if not listed or not all(isinstance(one, str | int | float) for one in listed):
        raise UsageError(
            f"ragc.choice({default!r}, {options!r}) has no options; list texts or numbers, such as "
            "ragc.choice('short', ('short', 'long'), 'how the answer is worded')."
        )
    if not any(type(one) is type(default) and one == default for one in listed):
        raise UsageError(
            f"ragc.choice({default!r}, {options!r}) has a default that is not among its options; add it."
        )
    return Declared(declared.choice(default, listed, about, **more))


@dataclass(frozen=True)
class OwnKnobs(Knobs):
    """The knobs of every user's own program beside its declared values."""

    temperature: float = redeclare(AnswerKnobs, "temperature")
    top_p: float = redeclare(AnswerKnobs, "top_p")
    icl_n: int = redeclare(AnswerKnobs, "icl_n")
    layout: str = redeclare(AnswerKnobs, "layout", also=(ADAPTER,))
    history: str = redeclare(AnswerKnobs, "history")
    max_tokens: int = declared.integer(
        512, 16, 8192, "tokens of a reply at most, where a predictor does not say", searched=False
    )


@dataclass(frozen=True, slots=True)
class OwnMethod(Method):
    """The record of a user's module: `module` is its class, or an instance that is copied.

    `adapter` is the DSPy adapter that it runs under; None if only ragc's layouts are used.
    """

    module: Any = None
    adapter: Any = None

    def build(self, runtime: Runtime, knobs: Knobs | Mapping[str, Any] | None = None) -> RagProgram:
        """Builds the module on `runtime` with `knobs` over the declared defaults. Raises UsageError."""
        runtime.require(self)
        module, _, name = self.program.partition(":")
        cls = getattr(importlib.import_module(module), name)
        chosen = knobs if isinstance(knobs, Knobs) else self.knobs.of(knobs or {})
        program: RagProgram = cls.of(self.id, self.module, runtime, chosen, self.adapter)
        program.method = self
        return program


_registered: dict[tuple[str, str], OwnMethod] = {}
"""The methods by name and by the folder that they were imported from; "" for the last one of a name."""


def own_method(reference: str, base: Path) -> OwnMethod:
    """Returns the method that `reference` names, imported from `base` first.

    Raises UsageError if it cannot be imported, or is no class of a DSPy module.
    """
    return register(reference, _class_of(reference, load_object(reference, base)), base)


def kept_method(reference: str, file: Path, base: Path) -> OwnMethod:
    """Returns the method that `reference` names, from the module `file` in the compiled directory `base`.

    Nothing is imported if the same file was imported already. Raises UsageError as `own_method` does.
    """
    known = _registered.get((reference, str(base.resolve()))) or _registered.get((reference, ""))
    if known is not None and known.code == sha256(file.read_bytes())[:16]:
        return known
    return register(reference, _class_of(reference, _load_source(reference, file)), base)


def _load_source(reference: str, file: Path) -> Any:
    """Imports what `reference` names from the module `file`; nothing beside the file can be imported.

    Only its source is read, no compiled file. Raises UsageError.
    """
    name = reference.partition(":")[0]
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = str(file)
    try:
        with explained(reference, file.parent):
            code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - the caller knows that it may run
        return named(reference, module)
    except BaseException:
        del sys.modules[name]
        raise


def _class_of(reference: str, cls: Any) -> Any:
    """Returns `cls` if it is a class of dspy.Module; raises UsageError."""
    import dspy

    if not isinstance(cls, type) or not issubclass(cls, dspy.Module):
        kind = cls.__name__ if isinstance(cls, type) else type(cls).__name__
        raise UsageError(
            f"The program {reference!r} is {kind}, no class of a dspy.Module; name a class that derives from "
            "dspy.Module."
        )
    return cls


def method_of(module: Any, adapter: Any = None) -> OwnMethod:
    """Returns the method of `module`, a class of a dspy.Module or an instance, named by where it is defined.

    It runs under `adapter`, whose layout is the default, unless that is None. Raises UsageError for any other
    object.
    """
    import dspy

    cls = module if isinstance(module, type) else type(module)
    if not issubclass(cls, dspy.Module):
        raise UsageError(
            f"A program is an id of ragc list programs or a dspy.Module, found {cls.__name__}; pass one of "
            "these."
        )
    return register(f"{cls.__module__}:{cls.__qualname__}", module, adapter=adapter)


def register(name: str, module: Any, base: Path | None = None, *, adapter: Any = None) -> OwnMethod:
    """Registers the method `name` of `module`, a class or an instance, for `registered`.

    Raises UsageError if it declares a value that every program has.
    """
    cls = module if isinstance(module, type) else type(module)
    values: dict[str, Declared] = {}
    for each in reversed(cls.__mro__):
        values |= {key: value for key, value in vars(each).items() if isinstance(value, Declared)}
    taken = [knob.name for knob in OwnKnobs.list_knobs() if knob.name in values]
    if taken:
        raise UsageError(
            f"The program {name!r} declares {taken[0]!r}, which every program has already; call it otherwise."
        )
    types = {"int": int, "float": float, "switch": bool, "choice": str}
    fields = [
        (key, types[knob.kind], dataclasses.field(default=knob.default, metadata={"knob": knob}))
        for key, knob in ((key, value.knob) for key, value in values.items())
    ]
    if adapter is not None:
        from ragc.programs.own.adapters import layout_of

        layout = layout_of(adapter)
        options = LAYOUTS if layout in LAYOUTS else (*LAYOUTS, layout)
        declaration = redeclare(OwnKnobs, "layout", default=layout, options=options, also=())
        fields.insert(0, ("layout", str, declaration))
    knobs: Any = dataclasses.make_dataclass(f"{cls.__name__}Knobs", fields, bases=(OwnKnobs,), frozen=True)
    about = (cls.__doc__ or "a module of the user's own").strip().partition("\n")[0]
    method = OwnMethod(
        name, about, "the user's own", "ragc.programs.own.program:OwnProgram", knobs,
        optional_sources=("local", "web", "kg"), module=module, code=code_digest(cls), adapter=adapter,
    )  # fmt: skip
    _registered[name, ""] = method
    if base is not None:
        _registered[name, str(base.resolve())] = method
    return method


def registered(name: str, base: Path | None = None) -> OwnMethod:
    """Returns the method that was registered as `name`, the one from the folder `base` if there is one.

    Nothing is imported. Raises UsageError if there is none.
    """
    folder = "" if base is None else str(base.resolve())
    known = _registered.get((name, folder)) or _registered.get((name, ""))
    if known is None:
        raise UsageError(
            f"The program {name!r} is a module of somebody's own that was not imported here; allow it with "
            "--trust-code, or import it and hand its class to ragc.program."
        )
    return known
