"""The schema of recipes, the check of this machine, and the indexes and models that recipes use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.compiled.access import Access
from ragc.core.progress import SILENT
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.compiled.pull import Pulled
    from ragc.core.progress import Progress
    from ragc.doctor import Check


def recipe_schema() -> dict[str, Any]:
    """Returns the JSON Schema of recipes (draft 2020-12), for completion and checks in editors."""
    from ragc.recipe.schema import json_schema

    return json_schema()


def examine(recipe: str | Path | None = None, *, sets: Sequence[str] = ()) -> list[Check]:
    """Checks this machine: libraries, stored files, and with a `recipe` what that needs.

    Each target of the recipe is opened and asked for one short reply. Returns a list of Check with `id`,
    `ok`, `found` (a sentence) and `needed`, False for what only some recipes use.

        [check.found for check in ragc.examine("recipe.toml") if not check.ok]

    Raises RecipeError, and UsageError for `sets` without a recipe.
    """
    from ragc import doctor
    from ragc import recipe as recipes

    if recipe is None:
        if sets:
            raise UsageError("`sets` is for the targets of a recipe; name one, or leave it out.")
        return doctor.examine_machine()
    resolved = recipes.load(recipe, sets)
    needs = doctor.examine_recipe(resolved)
    checks = doctor.examine_machine()
    return [*checks, needs, *doctor.examine_targets(resolved)]


def index(
    recipe: str | Path, *, sets: Sequence[str] = (), progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Builds the indexes that the programs of a recipe file search; existing indexes are reused.

    Returns a JSON object per index, with `path`, `bytes` and `passages`. Raises RecipeError, DataError and
    SourceError.
    """
    from ragc import recipe as recipes
    from ragc.task import indexing

    return indexing.index(recipes.load(recipe, sets), progress=progress or SILENT)


def pull(
    path: str | Path | None = None,
    *,
    sets: Sequence[str] = (),
    progress: Progress | None = None,
    access: Access = Access(),
) -> tuple[Pulled, ...]:
    """Fetches the models of the recipe or compiled program at `path`, for a machine without a network.

    Without a path, the weights of the default embedded model. Fetched are ragc's own weights, embedders, and
    models of the Hugging Face Hub by their id; models in folders and those of servers stay where they are.
    Returns a Pulled with `model` and `use` for each, also where it was here before.

        ragc.pull("recipe.toml")

    Raises Untrusted for a program from elsewhere whose models `access` does not allow, TargetUnavailable and
    SourceError where one cannot be fetched, and UsageError.
    """
    from ragc.compiled import pull as pulling

    return pulling.pull(path, progress or SILENT, sets=sets, access=access)


def write_beir(recipe: str | Path, out: str | Path, *, sets: Sequence[str] = ()) -> int:
    """Writes the questions and passages of a recipe as a folder in the format of BEIR.

    `out`, a new folder, receives `corpus.jsonl`, `queries.jsonl` (answers in their metadata) and a file of
    judgements for each split, `qrels/dev.tsv` and so on. The passages are those of the recipe's first source
    that searches passages. Returns the number of queries; questions without gold passages are left out.
    Raises RecipeError, DataError, and UsageError where `out` is there, no source searches passages, or no
    question names a gold passage.
    """
    from ragc import recipe as recipes
    from ragc.corpora.datasets import folders
    from ragc.task.data import searched_data

    splits, passages = searched_data(recipes.load(recipe, sets))
    return folders.write_beir(Path(out), splits, passages)
