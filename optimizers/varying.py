"""What a recipe lets vary: the search space of each of its programs, on the runtime of a task."""

from __future__ import annotations

from dataclasses import replace

from ragc.errors import UsageError
from ragc.optimizers.balancing import label_field
from ragc.optimizers.space import Space, Spaces
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.recipe_spec import BALANCED

DEMO_SETS = 4
"""Orderings of the demonstration pool that a study may choose from."""


def spaces(recipe: Recipe, runtime: Runtime) -> Spaces:
    """What `recipe` lets vary in programs on `runtime`. Raises UsageError as `Method.build` does."""
    several = len(recipe.methods) > 1
    parts = tuple(_space(recipe, chosen, runtime, chosen.id if several else "") for chosen in recipe.methods)
    return Spaces(parts, recipe.search.targets)


def _space(recipe: Recipe, chosen: Method, runtime: Runtime, program: str) -> Space:
    space = Space(
        recipe.space(chosen),
        chosen.knobs,
        fixed=recipe.fixed(chosen),
        demos=recipe.search.demos,
        demo_sets=DEMO_SETS,
        program=program,
    )
    if not space.demos:
        return space
    built = chosen.build(runtime, recipe.fixed(chosen))
    names = tuple(name for name, _ in built.named_predictors())
    own = names if len(names) > 1 else ()
    return replace(space, demo_kinds=_kinds(recipe, built), predictors=own)


def _kinds(recipe: Recipe, program: RagProgram) -> tuple[str, ...]:
    """The kinds of demonstrations that `program` can show."""
    kinds = recipe.search.demo_kinds
    if BALANCED not in kinds or any(label_field(call.signature) for call in program.predictors()):
        return kinds
    if rest := tuple(kind for kind in kinds if kind != BALANCED):
        return rest
    raise UsageError(
        f"search.demo_kinds = [{BALANCED!r}] balances the labels of judgement calls, and "
        f"{program.method.id!r} has none whose output is one of a few labels; name another kind."
    )
