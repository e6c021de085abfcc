"""Texts of a signature in two sizes: `full`, for models of a billion parameters and more, and `brief`.

A signature's docstring and descriptions are its full text. The decorator `brief` gives the short one beside
it; a field that it does not name has no description there. Both texts stay with the fields, whatever is
inserted, deleted or redeclared, until `worded` leaves one of them. A signature without `brief` has one text.

The decorator `otherwise` gives a signature a second pair of instructions, for another value of a knob; what
changes texts changes both pairs, and `switched` puts the second in the place of the first.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import dspy

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=type[dspy.Signature])
_KEY = "brief"
_OTHER = "otherwise"


@dataclass(frozen=True, slots=True)
class Brief:
    """The short text of a field, and the short instructions of the signature that it comes from."""

    desc: str = ""
    task: str = ""


def brief(task: str, **descriptions: str) -> Callable[[S], S]:
    """Returns a decorator that adds the short instructions `task`, and short `descriptions` of the fields."""

    def decorate(signature: S) -> S:
        fields = signature.model_fields
        if unknown := descriptions.keys() - fields.keys():
            raise TypeError(f"{signature.__name__} has no field {', '.join(sorted(unknown))}")
        for name, info in fields.items():
            short = Brief(descriptions.get(name, ""), task)
            info.json_schema_extra = {**_extra(info), _KEY: short}
        return signature

    return decorate


@dataclass(frozen=True, slots=True)
class OtherTexts:
    """Instructions in both sizes that a signature has under the name `when`."""

    when: str
    full: str
    brief: str


def otherwise(when: str, full: str, *, brief: str) -> Callable[[S], S]:
    """Returns a decorator that adds the instructions `full` and `brief` for the case called `when`."""
    other = OtherTexts(when, inspect.cleandoc(full), brief)

    def decorate(signature: S) -> S:
        for info in signature.model_fields.values():
            info.json_schema_extra = {**_extra(info), _OTHER: other}
        return signature

    return decorate


def other_case(signature: Any) -> str:
    """Returns the case of the second pair of instructions; "" without a second pair."""
    other = _other_texts(signature)
    return other.when if other else ""


def switched(signature: Any, case: str) -> Any:
    """Returns `signature` with its second pair of instructions, the first kept under the name `case`.

    Raises TypeError if it has only one pair.
    """
    other = _other_texts(signature)
    if other is None:
        raise TypeError(f"{signature.__name__} has no second pair of instructions")
    first = OtherTexts(case, signature.instructions, _short_task(signature))
    fields = {
        name: _with_extra(info, {**_extra(info), **({_OTHER: first} if _OTHER in _extra(info) else {})})
        for name, info in signature.fields.items()
    }
    return with_texts(dspy.Signature(fields, ""), other.full, brief=other.brief)


def _other_texts(signature: Any) -> OtherTexts | None:
    others = (_extra(info).get(_OTHER) for info in signature.fields.values())
    return next((other for other in others if other), None)


def derived(derive: F) -> F:
    """Caches the signature that the function returns for each arguments, which must be hashable.

    A class takes milliseconds, and a study builds the same ones for every trial.
    """
    return cast(F, lru_cache(maxsize=1024)(derive))


def input_field(desc: str, *, brief: str = "", **more: Any) -> Any:
    """Returns an input that is added to a signature, with both of its texts; `more` are its marks.

    `echo` names the input that it repeats; an `optional` one is not described to a call that lacks it.
    """
    return _field(dspy.InputField(desc=desc), brief, more)


def output_field(desc: str, *, brief: str = "", **more: Any) -> Any:
    """Returns an output that is added to a signature, with both of its texts; `more` are its marks.

    With a `default` a reply may lack it. `unread` is its value if it is unreadable in two replies
    (`ragc.programs.calls.outputs.forgiving`).
    """
    default = {"default": more.pop("default")} if "default" in more else {}
    return _field(dspy.OutputField(desc=desc, **default), brief, more)


def _field(info: Any, brief: str, more: dict[str, Any]) -> Any:
    info.json_schema_extra.update(more, **{_KEY: Brief(brief)})  # pydantic forgets another dictionary
    return info


def change_texts(
    signature: Any, change: Callable[[str], str], *, more: str = "", names: Sequence[str] | None = None
) -> Any:
    """Returns `signature` with `change` made to its instructions and descriptions, the short ones too.

    The descriptions are those of `names`, else of all outputs. `more` is a paragraph at the end of the full
    instructions, which a signature with one text does not get.
    """

    def changed(text: str) -> str:
        text = change(text)
        return f"{text}\n\n{more}" if more and more not in text and _short_task(signature) else text

    task = changed(signature.instructions)
    changing = signature.output_fields if names is None else names
    fields: dict[str, Any] = {}
    for name, info in signature.fields.items():
        extra, convert = _extra(info), str if name not in changing else change
        short = extra.get(_KEY)
        extra = {**extra, "desc": convert(extra["desc"])}
        if short is not None:
            extra[_KEY] = Brief(convert(short.desc), change(short.task))
        if (other := extra.get(_OTHER)) is not None:
            extra[_OTHER] = OtherTexts(other.when, changed(other.full), change(other.brief))
        fields[name] = _with_extra(info, extra)
    return dspy.Signature(fields, task)


def with_texts(signature: Any, full: str, *, brief: str) -> Any:
    """Returns `signature` with the instructions `full` and the short ones `brief`; its descriptions stay."""
    fields: dict[str, Any] = {}
    for name, info in signature.fields.items():
        extra = _extra(info)
        if _KEY in extra:
            extra = {**extra, _KEY: Brief(extra[_KEY].desc, brief)}
        fields[name] = _with_extra(info, extra)
    return dspy.Signature(fields, full)


def with_paragraph(signature: Any, full: str, *, brief: str) -> Any:
    """Returns `signature` with another paragraph after its first instructions, `brief` in the short ones."""
    return with_texts(
        signature, f"{signature.instructions}\n\n{full}", brief=f"{_short_task(signature)}\n\n{brief}"
    )


def describe(signature: Any, name: str, desc: str, *, brief: str = "", kind: Any = None) -> Any:
    """Returns `signature` with both descriptions of the field `name` replaced, and its type by `kind`."""
    short = _extra(signature.fields[name]).get(_KEY)
    both = {"desc": desc, _KEY: Brief(brief, short.task if short else "")}
    return signature.with_updated_fields(name, kind, **both)


def description(name: str, info: Any) -> str:
    """Returns the description of a field; "" for DSPy's placeholder."""
    desc = str(_extra(info).get("desc") or "")
    return "" if desc == f"${{{name}}}" else desc


def output_texts(signature: Any) -> dict[str, list[str]]:
    """Returns the descriptions of each output that have more than a word, in both wordings if it has both."""
    texts: dict[str, list[str]] = {}
    for name, info in signature.output_fields.items():
        extra = _extra(info)
        both = (str(extra.get("desc") or ""), str(getattr(extra.get(_KEY), "desc", "")))
        texts[name] = [text for text in both if " " in text]
    return texts


@derived
def worded(signature: Any, wording: str) -> Any:
    """Returns `signature` with its texts of one `wording`, `full` or `brief`; one with a single text as it
    is.
    """
    extras = {name: _extra(info) for name, info in signature.fields.items()}
    if not any(_KEY in extra for extra in extras.values()):
        return signature
    short = wording == "brief"
    task = _short_task(signature) if short else ""
    fields: dict[str, Any] = {}
    for name, info in signature.fields.items():
        left = {key: value for key, value in extras[name].items() if key not in (_KEY, _OTHER)}
        if short and _KEY in extras[name]:
            left["desc"] = extras[name][_KEY].desc or f"${{{name}}}"
        fields[name] = _with_extra(info, left)
    return dspy.Signature(fields, task or signature.instructions)


def described(signature: Any, instructions: str, descriptions: Mapping[str, str]) -> Any:
    """Returns `signature` with these instructions and descriptions; a field without one is only named."""
    fields = {
        name: _with_extra(info, {**_extra(info), "desc": descriptions.get(name) or f"${{{name}}}"})
        for name, info in signature.fields.items()
    }
    return dspy.Signature(fields, instructions)


def with_fields(signature: Any, names: Sequence[str]) -> Any:
    """Returns `signature` with the fields `names` alone, in that order. Raises KeyError."""
    fields = signature.fields
    return dspy.Signature({name: fields[name] for name in names}, signature.instructions)


def _short_task(signature: Any) -> str:
    """Returns the short instructions, which the fields carry, or ""."""
    shorts = (_extra(info).get(_KEY) for info in signature.fields.values())
    return next((short.task for short in shorts if short and short.task), "")


def _extra(info: Any) -> dict[str, Any]:
    return info.json_schema_extra or {}


def _with_extra(info: Any, extra: dict[str, Any]) -> Any:
    """Returns a copy of the field `info` with `extra`."""
    new = copy.copy(info)
    new.json_schema_extra = extra
    return new
