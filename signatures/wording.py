"""Texts of a signature in two sizes: `full`, for models of a billion parameters and more, and `brief`.

A signature's docstring and descriptions are its full text. The decorator `brief` gives the short one beside
it; a field that it does not name has no description there. Both texts stay with the fields, whatever is
inserted, deleted or redeclared, until `worded` leaves one of them. A signature without `brief` has one text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import dspy

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=type[dspy.Signature])
_KEY = "brief"


@dataclass(frozen=True, slots=True)
class Brief:
    """The short text of a field, and the short instructions of the signature that it comes from."""

    desc: str = ""
    task: str = ""


def brief(task: str, **descriptions: str) -> Callable[[S], S]:
    """Give a signature the short instructions `task`, and its fields the short `descriptions`."""

    def decorate(signature: S) -> S:
        fields = signature.model_fields
        if unknown := descriptions.keys() - fields.keys():
            raise TypeError(f"{signature.__name__} has no field {', '.join(sorted(unknown))}")
        for name, info in fields.items():
            short = Brief(descriptions.get(name, ""), task)
            info.json_schema_extra = {**_extra(info), _KEY: short}
        return signature

    return decorate


def derived(derive: F) -> F:
    """Makes each signature that the function gives once, for arguments that are hashable.

    A class takes milliseconds, and a study builds the same ones for every trial.
    """
    return cast(F, lru_cache(maxsize=1024)(derive))


def input_field(desc: str, *, brief: str = "", **more: Any) -> Any:
    """An input that is added to a signature, with both of its texts; `more` are marks that it bears."""
    return _field(dspy.InputField(desc=desc), brief, more)


def output_field(desc: str, *, brief: str = "", **default: Any) -> Any:
    """An output that is added to a signature, with both texts; with a `default` a reply may lack it."""
    return _field(dspy.OutputField(desc=desc, **default), brief, {})


def _field(info: Any, brief: str, more: dict[str, Any]) -> Any:
    info.json_schema_extra.update(more, **{_KEY: Brief(brief)})  # pydantic forgets another dictionary
    return info


def change_texts(
    signature: Any, change: Callable[[str], str], *, more: str = "", names: Sequence[str] | None = None
) -> Any:
    """`signature` with `change` made to its instructions and descriptions, the short ones too.

    The descriptions are those of `names`, else of all outputs. `more` is a paragraph at the end of the full
    instructions, which a signature with one text does not get.
    """
    task = change(signature.instructions)
    if more and more not in task and _short_task(signature):
        task = f"{task}\n\n{more}"
    changing = signature.output_fields if names is None else names
    fields: dict[str, Any] = {}
    for name, info in signature.fields.items():
        extra, convert = _extra(info), str if name not in changing else change
        short = extra.get(_KEY)
        extra = {**extra, "desc": convert(extra["desc"])}
        if short is not None:
            extra[_KEY] = Brief(convert(short.desc), change(short.task))
        fields[name] = _with_extra(info, extra)
    return dspy.Signature(fields, task)


def describe(signature: Any, name: str, desc: str, *, brief: str = "", kind: Any = None) -> Any:
    """`signature` with both descriptions of the field `name` replaced, and its type where `kind` is given."""
    short = _extra(signature.fields[name]).get(_KEY)
    both = {"desc": desc, _KEY: Brief(brief, short.task if short else "")}
    return signature.with_updated_fields(name, kind, **both)


def description(name: str, info: Any) -> str:
    """What is said of a field; nothing where DSPy's stand-in is all."""
    desc = str(_extra(info).get("desc") or "")
    return "" if desc == f"${{{name}}}" else desc


@derived
def worded(signature: Any, wording: str) -> Any:
    """`signature` with its texts of one `wording`, `full` or `brief`; one with a single text as it is."""
    extras = {name: _extra(info) for name, info in signature.fields.items()}
    if not any(_KEY in extra for extra in extras.values()):
        return signature
    short = wording == "brief"
    task = _short_task(signature) if short else ""
    fields: dict[str, Any] = {}
    for name, info in signature.fields.items():
        left = {key: value for key, value in extras[name].items() if key != _KEY}
        if short and _KEY in extras[name]:
            left["desc"] = extras[name][_KEY].desc or f"${{{name}}}"
        fields[name] = _with_extra(info, left)
    return dspy.Signature(fields, task or signature.instructions)


def described(signature: Any, instructions: str, descriptions: Mapping[str, str]) -> Any:
    """`signature` with these instructions and descriptions; a field without one says only its name."""
    fields = {
        name: _with_extra(info, {**_extra(info), "desc": descriptions.get(name) or f"${{{name}}}"})
        for name, info in signature.fields.items()
    }
    return dspy.Signature(fields, instructions)


def with_fields(signature: Any, names: Sequence[str]) -> Any:
    """`signature` with the fields `names` alone, in that order. Raises KeyError."""
    fields = signature.fields
    return dspy.Signature({name: fields[name] for name in names}, signature.instructions)


def _short_task(signature: Any) -> str:
    """The short instructions, which the fields carry; "" where there are none."""
    shorts = (_extra(info).get(_KEY) for info in signature.fields.values())
    return next((short.task for short in shorts if short and short.task), "")


def _extra(info: Any) -> dict[str, Any]:
    return info.json_schema_extra or {}


def _with_extra(info: Any, extra: dict[str, Any]) -> Any:
    """A copy of the field `info` that bears `extra`."""
    new = copy.copy(info)
    new.json_schema_extra = extra
    return new
