"""Imports the prompts that a recipe names, and applies them to its program."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from ragc.errors import RecipeError, UsageError
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.task.baseline import baseline_knobs
from ragc.task.prompt_size import check_cap

if TYPE_CHECKING:
    from ragc.task.base import Task


def give_prompts(program: RagProgram, recipe: Recipe) -> RagProgram:
    """Returns `program` with the instructions and demonstrations of the files in `recipe.prompts`.

    Only the recipe's own program gets them. Raises RecipeError listing every file that is no prompt, or is no
    prompt of the predictor it is named for, or an export that the recipe lays out otherwise. A candidate may,
    and the baseline where a search or a grid varies how prompts are laid out.
    """
    if not recipe.prompts or program.method.id != recipe.program:
        return program
    from ragc.prompts.imported import LAYOUT_KNOBS, import_prompt

    varied = {knob.name for knob in recipe.space(program.method)}
    varied.update(*recipe.grid.settings, recipe.grid.baseline)
    knobs, values = program.method.knobs.list_knobs(), program.knobs.to_json()
    own = {knob.name: knob.default for knob in knobs} | recipe.fixed(program.method)
    is_candidate = any(values.get(name) != own.get(name) for name in varied - {"icl_n"})
    as_laid_out = not is_candidate and varied.isdisjoint(LAYOUT_KNOBS)
    problems = []
    for name, file in recipe.prompts.items():
        try:
            import_prompt(recipe.path(file)).apply(program, name, as_laid_out=as_laid_out)
        except UsageError as error:
            problems.append(f"prompts.{name} = {file!r}: {error}")
    if problems:
        raise RecipeError("recipe", problems)
    return program


def small_model_note(task: Task) -> str:
    """Returns advice for a model that is too small for the full prompt wording; "" if none is needed.

    A study that searches both wordings needs no advice. Judge and teacher have their own prompts.
    """
    recipe = task.recipe
    fulls = [m for m in recipe.methods if baseline_knobs(recipe, m).get("wording") == "full"]
    if not any(all(knob.name != "wording" for knob in recipe.space(chosen)) for chosen in fulls):
        return ""
    targets = {role: target for role, target in task.runtime.targets.items() if role not in _APART}
    for role, target in targets.items():
        size = parameters_named(target.model)
        if size is not None and size < SMALL:
            return (
                f"The model of {role!r}, {target.model}, has {size / 1e6:.0f} million parameters and gets "
                'prompts in the wording "full", which is for larger ones; under [knobs] say '
                'wording = "brief".'
            )
    return ""


_APART = ("judge", "teacher")

SMALL = 1e9
"""Models with fewer parameters follow a short prompt better than a long one."""

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)\s?([mb])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9}


def parameters_named(model: str) -> float | None:
    """Returns the number in a model's name such as `Qwen2.5-0.5B-Instruct`; the largest, for mixtures of
    experts.
    """
    sizes = [
        int(experts or 1) * float(number) * _UNITS[unit.lower()]
        for experts, number, unit in _SIZE.findall(model)
    ]
    return max(sizes, default=None)


def check_prompts(task: Task) -> None:
    """Raises RecipeError, as `give_prompts`, unless the recipe's prompts fit its program's baseline."""
    if task.recipe.prompts:
        give_prompts(task.method.build(task.runtime, task.baseline_knobs), task.recipe)


def check_programs(task: Task) -> None:
    """Builds the baseline of every program of `task` with the recipe's prompts; nothing is sent.

    Raises UsageError for a role, source or capability that a program lacks, for a cap on prompts that the
    baseline exceeds, and as `give_prompts`.
    """
    for chosen in task.recipe.methods:
        knobs = baseline_knobs(task.recipe, chosen)
        built = give_prompts(chosen.build(task.runtime, knobs), task.recipe)
        check_cap(task.recipe.search.prompt_tokens, built, knobs, (*task.train, *task.dev, *task.test))


def fingerprints(recipe: Recipe) -> dict[str, str]:
    """Returns the SHA-256 of each prompt file, 16 hexadecimal digits, by predictor; a changed file changes
    the recipe's identity.

    Raises DataError for a file that cannot be a prompt, for example by its size.
    """
    from ragc.prompts.imported import contents

    files = {name: contents(recipe.path(file)) for name, file in recipe.prompts.items()}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in files.items()}
