"""Prompts that a recipe brings along: imported, and given to the program that is compiled."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ragc.errors import RecipeError, UsageError
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe

if TYPE_CHECKING:
    from ragc.optimizers.task import Task


def give_prompts(program: RagProgram, recipe: Recipe) -> RagProgram:
    """`program` with the instructions and demonstrations of the files in `recipe.prompts`.

    Only the recipe's own program gets them. Raises RecipeError with every file that is no prompt, or not
    one of the predictor it is named for.
    """
    if not recipe.prompts or program.method.id != recipe.program:
        return program
    from ragc.prompts.load import import_prompt

    problems = []
    for name, file in recipe.prompts.items():
        try:
            import_prompt(recipe.path(file)).apply(program, name)
        except UsageError as error:
            problems.append(f"prompts.{name} = {file!r}: {error}")
    if problems:
        raise RecipeError("recipe", problems)
    return program


def check_programs(task: Task) -> None:
    """Build the baseline of every program of `task` and give it the recipe's prompts; nothing is sent.

    Raises UsageError for a role, source or capability that a program lacks, else as `give_prompts`.
    """
    for part in task.space.parts:
        built = task.method_of(part.program).build(task.runtime, dict(part.baseline().knobs))
        give_prompts(built, task.recipe)


def fingerprints(recipe: Recipe) -> dict[str, str]:
    """The SHA-256 of each prompt file, by predictor, so that a changed file is another recipe.

    Raises DataError for what is no file of a prompt's size.
    """
    from ragc.prompts.load import contents

    return {
        name: hashlib.sha256(contents(recipe.path(file))).hexdigest()[:16]
        for name, file in recipe.prompts.items()
    }
