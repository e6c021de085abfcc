"""The baseline of a program: its knobs under the recipe, and the kinds of demonstrations it can show."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

from ragc.errors import UsageError
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import Value
from ragc.recipe import Recipe
from ragc.recipe.values import BALANCED, NEAREST


def fixed_knobs(recipe: Recipe, chosen: Method) -> dict[str, Value]:
    """Returns what the recipe fixes, and that as many demonstrations are shown as are searched."""
    fixed = recipe.fixed(chosen)
    default, n_demos = int(chosen.knobs.knob("icl_n").default), recipe.search.demos
    if "icl_n" in fixed or "icl_n" in recipe.search.knobs or default >= n_demos:
        return fixed
    return {**fixed, "icl_n": n_demos}


def baseline_knobs(recipe: Recipe, chosen: Method) -> dict[str, Value]:
    """Returns the declared defaults of the program `chosen`, overridden by what the recipe fixes.

    An `added` knob at its default is among them only where it is searched.
    """
    settings = chosen.knobs.of(fixed_knobs(recipe, chosen))
    values: dict[str, Value] = settings.to_json(keep={knob.name for knob in recipe.space(chosen)})
    return values


def demo_kinds(recipe: Recipe, program: RagProgram) -> tuple[str, ...]:
    """Returns the kinds of demonstrations that `program` can show.

    Raises UsageError if these are balanced by label alone and no call of it gives a label.
    """
    kinds = recipe.search.demo_kinds
    if NEAREST in kinds and not all(isinstance(call, RagPredict) for call in program.predictors()):
        raise UsageError(
            f"search.demo_kinds names {NEAREST!r}, and the predictors of a module of DSPy show every "
            "question the same demonstrations; name another kind."
        )
    if BALANCED not in kinds or any(label_field(call.signature) for call in program.predictors()):
        return kinds
    if rest := tuple(kind for kind in kinds if kind != BALANCED):
        return rest
    raise UsageError(
        f"search.demo_kinds = [{BALANCED!r}] balances the labels of judgement calls, and "
        f"{program.method.id!r} has none whose output is one of a few labels; name another kind."
    )


def label_field(signature: Any) -> str:
    """Returns the first output of `signature` that is a Literal, a bool or an enumeration; "" for none."""
    return next((n for n, info in signature.output_fields.items() if _is_closed(info.annotation)), "")


def _is_closed(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_closed(get_args(annotation)[0])
    return (
        get_origin(annotation) is Literal
        or annotation is bool
        or (isinstance(annotation, type) and issubclass(annotation, Enum))
    )
