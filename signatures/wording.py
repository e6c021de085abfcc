"""Texts of a signature in two sizes: `full`, for models of a billion parameters and more, and `brief`.

A signature's docstring and descriptions are its full text. The decorator `brief` is the table of its short
ones; a field that it does not name has no description there. With `otherwise` it has a second pair of
instructions, for another value of a knob. The fields carry these texts, whatever is inserted, deleted or
redeclared, until `worded` leaves one size. A signature without `brief` has one text.

Here too: `Percent`, the one scale of confidences and chances, in whole per cent (scales of other things are
those of their papers: RelevanceGrade from -100 to 100 points, Utility from 1 to 5), and `Trajectory`, what
was done for a question so far, a text a step with what was searched for and found; empty at first.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import dspy
from pydantic import Field

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=type[dspy.Signature])
Percent = Annotated[int, Field(ge=0, le=100)]
Trajectory = list[str]
_KEY = "brief"


class Otherwise(NamedTuple):
    """Instructions in both sizes that a signature has in the case called `when`."""

    when: str
    full: str
    brief: str


class Brief(NamedTuple):
    """The short text of a field; the short and the other instructions of the signature that it comes from."""

    desc: str = ""
    task: str = ""
    otherwise: Otherwise | None = None


def brief(task: str, *, otherwise: Otherwise | None = None, **descriptions: str) -> Callable[[S], S]:
    """Returns a decorator that adds the short instructions `task`, and short `descriptions` of the fields."""
    other = otherwise and otherwise._replace(full=inspect.cleandoc(otherwise.full))

    def decorate(signature: S) -> S:
        fields = signature.model_fields
        if unknown := descriptions.keys() - fields.keys():
            raise TypeError(f"{signature.__name__} has no field {', '.join(sorted(unknown))}")
        for name, info in fields.items():
            short = Brief(descriptions.get(name, ""), task, other)
            info.json_schema_extra = {**_extra(info), _KEY: short}
        return signature

    return decorate


def in_case(signature: Any, case: str, first: str) -> Any:
    """Returns `signature` with its instructions for `case`; `first` is the only other case.

    One pair is that of its docstring, the other that of `otherwise`. Raises TypeError for a signature that
    has no second pair for one of these cases.
    """
    carried = _carried(signature)
    other = carried.otherwise
    if other is None or other.when not in (case, first):
        raise TypeError(f"{signature.__name__} does not say how it is worded for {case}")
    if other.when == first:
        return signature
    before = Otherwise(first, signature.instructions, carried.task)

    def switch(name: str, desc: str, short: Brief | None) -> tuple[str, Brief | None]:
        return desc, short and short._replace(task=other.brief, otherwise=short.otherwise and before)

    return _rebuilt(signature, other.full, switch)


def derived(derive: F) -> F:
    """Caches the signature that the function returns for each arguments, which must be hashable.

    A class takes milliseconds, and a study builds the same ones for every trial.
    """
    return cast(F, lru_cache(maxsize=1024)(derive))


def input_field(desc: str, *, brief: str = "", **more: Any) -> Any:
    """Returns an input that is added to a signature, with both of its texts; `more` are its marks.

    `echo` names the input that it repeats; an `optional` one is not described to a call that lacks it.
    """
    return _marked(dspy.InputField(desc=desc), brief, more)


def output_field(desc: str, *, brief: str = "", **more: Any) -> Any:
    """Returns an output that is added to a signature, with both of its texts; `more` are its marks.

    With a `default` a reply may lack it.
    """
    default = {"default": more.pop("default")} if "default" in more else {}
    return _marked(dspy.OutputField(desc=desc, **default), brief, more)


def _marked(info: Any, brief: str, more: dict[str, Any]) -> Any:
    info.json_schema_extra.update(more, **{_KEY: Brief(brief)})  # pydantic forgets another dictionary
    return info


def change_texts(
    signature: Any, change: Callable[[str], str], *, more: str = "", names: Sequence[str] | None = None
) -> Any:
    """Returns `signature` with `change` made to its instructions and descriptions, the short ones too.

    The descriptions are those of `names`, else of all outputs. `more` is a paragraph at the end of the full
    instructions, which a signature with one text does not get.
    """
    more = more if _carried(signature).task else ""
    changing = signature.output_fields if names is None else names

    def change_full(text: str) -> str:
        text = change(text)
        return f"{text}\n\n{more}" if more and more not in text else text

    def change_field(name: str, desc: str, short: Brief | None) -> tuple[str, Brief | None]:
        convert = change if name in changing else str
        if short:
            other = short.otherwise
            other = other and Otherwise(other.when, change_full(other.full), change(other.brief))
            short = Brief(convert(short.desc), change(short.task), other)
        return convert(desc), short

    return _rebuilt(signature, change_full(signature.instructions), change_field)


def describe(signature: Any, name: str, desc: str, *, brief: str = "", kind: Any = None) -> Any:
    """Returns `signature` with both descriptions of the field `name` replaced, and its type by `kind`."""
    short = _extra(signature.fields[name]).get(_KEY, Brief())._replace(desc=brief)
    return signature.with_updated_fields(name, kind, desc=desc, **{_KEY: short})


def description(name: str, info: Any) -> str:
    """Returns the description of a field; "" for DSPy's placeholder."""
    desc = str(_extra(info).get("desc") or "")
    return "" if desc == _placeholder(name) else desc


def output_texts(signature: Any) -> dict[str, list[str]]:
    """Returns the descriptions of each output that have more than a word, in both wordings if it has both."""
    extras = {name: _extra(info) for name, info in signature.output_fields.items()}
    both = {n: (str(extra.get("desc") or ""), extra.get(_KEY, Brief()).desc) for n, extra in extras.items()}
    return {name: [text for text in texts if " " in text] for name, texts in both.items()}


@derived
def worded(signature: Any, wording: str) -> Any:
    """Returns `signature` with its texts of one `wording`, `full` or `brief`; one with a single text as it
    is.
    """
    if not any(_KEY in _extra(info) for info in signature.fields.values()):
        return signature
    short = wording == "brief"

    def word(name: str, desc: str, carried: Brief | None) -> tuple[str, None]:
        return (carried.desc or _placeholder(name)) if short and carried else desc, None

    return _rebuilt(signature, (short and _carried(signature).task) or signature.instructions, word)


def described(signature: Any, instructions: str, descriptions: Mapping[str, str]) -> Any:
    """Returns `signature` with these instructions and descriptions; a field without one is only named."""
    return _rebuilt(
        signature,
        instructions,
        lambda name, desc, short: (descriptions.get(name) or _placeholder(name), short),
    )


def with_fields(signature: Any, names: Sequence[str]) -> Any:
    """Returns `signature` with the fields `names` alone, in that order. Raises KeyError."""
    return dspy.Signature({name: signature.fields[name] for name in names}, signature.instructions)


def _rebuilt(
    signature: Any, task: str, texts: Callable[[str, str, Brief | None], tuple[str, Brief | None]]
) -> Any:
    """Returns `signature` with the instructions `task`, and for each field the `texts` of its name, its
    description and what it carries.
    """
    fields = {}
    for name, info in signature.fields.items():
        extra = dict(_extra(info))
        extra["desc"], short = texts(name, extra.get("desc") or _placeholder(name), extra.pop(_KEY, None))
        fields[name] = copy.copy(info)
        fields[name].json_schema_extra = {**extra, _KEY: short} if short else extra
    return dspy.Signature(fields, task)


def _carried(signature: Any) -> Brief:
    """Returns what a field carries of its signature's texts; nothing for a signature with one text."""
    carried = (_extra(info).get(_KEY) for info in signature.fields.values())
    return next((short for short in carried if short and short.task), Brief())


def _placeholder(name: str) -> str:
    return f"${{{name}}}"


def _extra(info: Any) -> dict[str, Any]:
    return info.json_schema_extra or {}
