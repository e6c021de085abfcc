"""The user's own programs: any DSPy module, with its own signatures and control flow, as a method.

A recipe names one as `program = "my_module:MyProgram"`, a class that is built without arguments. Numbers,
switches and choices that may be searched are declared on the class (`ragc.programs.own.numbers`). Only
`own_method`, which is for names that the user typed, imports modules; `registered` finds imported ones.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import dspy

from ragc.core.files import sha256
from ragc.core.user_code import code_digest, explained, load_object, named
from ragc.errors import RagcError, UsageError
from ragc.programs import knobs as declared
from ragc.programs.knobs import AnswerKnobs, Knobs, redeclare
from ragc.programs.method import Method
from ragc.programs.own.numbers import choice, number, numbers_of, switch

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.runtime import Runtime


@dataclass(frozen=True, init=False, repr=False, eq=False)
class OwnKnobs(Knobs):
    """The knobs of every user's own program; its numbers follow, by their paths in the module.

    The first three are the settings of a target of ragc. A `dspy.LM` has its own, and nothing is added to
    them.
    """

    temperature: float = redeclare(AnswerKnobs, "temperature", searched=False)
    top_p: float = redeclare(AnswerKnobs, "top_p", searched=False)
    max_tokens: int = declared.integer(512, 16, 8192, "tokens of a reply at most", searched=False)
    icl_n: int = redeclare(AnswerKnobs, "icl_n")
    history: str = redeclare(AnswerKnobs, "history")

    def __init__(self, **values: Any) -> None:
        for knob in type(self).list_knobs():  # a path is no name of an argument
            object.__setattr__(self, knob.name, values.get(knob.name, knob.default))
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self.to_json().items()))


SETTINGS = ("temperature", "top_p", "max_tokens")
"""The knobs that are settings of a target."""


@dataclass(frozen=True, slots=True)
class OwnMethod(Method):
    """The record of a user's module: `module` is its class, or an instance that is copied."""

    module: Any = None

    def build(self, runtime: Runtime, knobs: Knobs | Mapping[str, Any] | None = None) -> RagProgram:
        """Builds the module on `runtime` with `knobs` over the declared defaults. Raises UsageError."""
        runtime.require(self)
        module, _, name = self.program.partition(":")
        cls = getattr(importlib.import_module(module), name)
        chosen = knobs if isinstance(knobs, Knobs) else self.knobs.of(knobs or {})
        program: RagProgram = cls.of(instance_of(self.id, self.module), runtime, chosen)
        program.method = self
        return program


def instance_of(name: str, module: Any) -> Any:
    """Returns a new instance of `module`, a class, or `module` itself.

    Raises UsageError if the class cannot be built without arguments.
    """
    if not isinstance(module, type):
        return module
    try:
        return module()
    except RagcError:
        raise
    except Exception as error:
        needed = isinstance(error, TypeError) and "argument" in str(error)
        raise UsageError(
            f"The program {name!r} cannot be built without arguments: {type(error).__name__}: {error}; "
            f"{'give every argument of __init__ a default' if needed else 'correct its __init__'}."
        ) from error


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
    if not isinstance(cls, type) or not issubclass(cls, dspy.Module):
        kind = cls.__name__ if isinstance(cls, type) else type(cls).__name__
        raise UsageError(
            f"The program {reference!r} is {kind}, no class of a dspy.Module; name a class that derives from "
            "dspy.Module."
        )
    return cls


def method_of(module: Any) -> OwnMethod:
    """Returns the method of `module`, a class of a dspy.Module or an instance, named by where it is defined.

    Raises UsageError for any other object.
    """
    cls = module if isinstance(module, type) else type(module)
    if not issubclass(cls, dspy.Module):
        raise UsageError(
            f"A program is an id of ragc list programs or a dspy.Module, found {cls.__name__}; pass one of "
            "these."
        )
    return register(f"{cls.__module__}:{cls.__qualname__}", module)


def register(name: str, module: Any, base: Path | None = None) -> OwnMethod:
    """Registers the method `name` of `module`, a class or an instance, for `registered`.

    The values that an instance has are the defaults of its knobs. Raises UsageError if the class cannot be
    built without arguments, or declares a value that every program has.
    """
    cls = module if isinstance(module, type) else type(module)
    numbers = numbers_of(instance_of(name, module))
    if taken := [knob.name for knob in OwnKnobs.list_knobs() if knob.name in numbers]:
        raise UsageError(
            f"The program {name!r} declares {taken[0]!r}, which every program has already; call it otherwise."
        )
    fields: dict[str, Any] = {}
    for path, (part, declaration) in numbers.items():
        value = declaration.knob.check(getattr(part, declaration.name))
        knob = dataclasses.replace(declaration.knob, default=value)
        fields[path] = dataclasses.field(default=value, metadata={"knob": knob})
    annotations = dict.fromkeys(fields, "Any")
    knobs: Any = type(f"{cls.__name__}Knobs", (OwnKnobs,), {**fields, "__annotations__": annotations})
    about = (cls.__doc__ or "a module of the user's own").strip().partition("\n")[0]
    method = OwnMethod(
        name, about, "the user's own", "ragc.programs.own.program:OwnProgram",
        dataclass(frozen=True, init=False, repr=False, eq=False)(knobs),
        optional_sources=("local", "web", "kg"), module=module, code=code_digest(cls),
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


__all__ = ["OwnMethod", "choice", "kept_method", "method_of", "number", "own_method", "registered", "switch"]
