"""Prompts that a recipe brings along: imported, and given to the program that is compiled."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ragc import inputs
from ragc.errors import DataError
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe


def give_prompts(program: RagProgram, recipe: Recipe) -> RagProgram:
    """`program` with the instructions and demonstrations of the files in `recipe.prompts`.

    Only the recipe's own program gets them. Raises UsageError and its kin when a file is no prompt, or not
    one of the predictor it is named for.
    """
    if recipe.prompts and program.method.id == recipe.program:
        from ragc.exports.imported import imported

        for name, file in recipe.prompts.items():
            imported(recipe.path(file)).apply(program, name)
    return program


def fingerprints(recipe: Recipe) -> dict[str, str]:
    """The SHA-256 of each prompt file, by predictor, so that a changed file is another recipe.

    Raises DataError for a file that cannot be read.
    """
    return {name: _fingerprint(recipe.path(file)) for name, file in recipe.prompts.items()}


def _fingerprint(path: Path) -> str:
    try:
        return hashlib.sha256(inputs.read_bytes(path)).hexdigest()[:16]
    except (OSError, ValueError) as error:
        raise DataError(str(path), [f"the prompt cannot be read: {error}."]) from None
