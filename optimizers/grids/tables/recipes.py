"""The recipe of a table's row on one of its data sets, with the user's overrides.

Its dev questions are the whole file of the data set; the run draws its sample of them. Roles that the user
does not configure use the main target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from ragc.errors import UnknownName, UsageError
from ragc.optimizers.grids.tables.data_files import Located
from ragc.optimizers.grids.tables.table import DataUse, Table, TableRow
from ragc.programs import Method, method
from ragc.recipe import Recipe
from ragc.recipe.load import parse, set_keys
from ragc.recipe.models import plain
from ragc.task.requirements import lacking

SEED = 1
"""The seed of the sample, unless `--set seed=` names another."""


def knob_names(entry: Method) -> set[str]:
    """Returns the names of the knobs of a program."""
    return {knob.name for knob in entry.knobs.list_knobs()}


def check_sets(rows: Sequence[TableRow], sets: Sequence[str]) -> None:
    """Raises UsageError for the user's own prompt, UnknownName for a knob that no program of `rows` has."""
    known = {name for row in rows for name in knob_names(method(row.program))}
    for keys in set_keys(sets):
        if keys[0] == "prompts":
            raise UsageError(
                f"The rows of a table are sent with the prompts of their programs, found --set "
                f"{'.'.join(map(str, keys))}; name the file under [prompts] of a recipe, and score that with "
                "`ragc eval`."
            )
        if keys[0] == "knobs" and len(keys) == 2 and str(keys[1]) not in known:
            raise UnknownName("knob of these rows", str(keys[1]), sorted(known))


def row_recipe(
    table: Table, row: TableRow, use: DataUse, located: Located, sets: Sequence[str] = ()
) -> Recipe:
    """Returns the recipe of `row` on `use`, with `sets` except those for knobs that its program lacks.

    Relative paths of `sets` are resolved from the working directory. Metrics that this machine cannot compute
    are not reported: see `unmeasured`. Raises RecipeError.
    """
    entry = method(row.program)
    own = [text for text in sets if not _is_foreign_knob(text, entry)]
    recipe = _parse(table, row, use, located, own, use.metrics)
    if absent := unmeasured(recipe, use.metrics):
        measured = tuple(name for name in use.metrics if name not in absent)
        recipe = _parse(table, row, use, located, own, measured or ("lm_calls",))
    own_roles = {keys[1] for keys in set_keys(own) if keys[0] == "targets" and len(keys) > 1}
    main = recipe.targets["main"]
    targets = {role: spec if role in own_roles else main for role, spec in recipe.targets.items()}
    return recipe.replace(targets=targets)


def stand_ins(table: Table, sets: Sequence[str] = ()) -> dict[str, str]:
    """Returns the stand-ins of `table` for sources that `sets` does not configure."""
    configured = {keys[1] for keys in set_keys(sets) if keys[0] == "sources" and len(keys) > 1}
    return {name: other for name, other in table.stand_ins.items() if name not in configured}


def _sources(table: Table, row: TableRow, sets: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Returns the sources of `row` by name; a stand-in and the source beside it search one half each."""
    sources = {**table.sources, **row.sources}
    for name, other in stand_ins(table, sets).items():
        sources[name] = _half(table.sources[other], "second")
        sources[other] = _half(sources[other], "first")
    return sources


def _half(source: Mapping[str, Any], half: str) -> dict[str, Any]:
    return {**source, "options": {**source.get("options", {}), "half": half}}


def unmeasured(recipe: Recipe, metrics: Sequence[str]) -> dict[str, str]:
    """Returns why this machine cannot compute some of `metrics`, by metric."""
    rest = set(lacking(recipe, targets=False, metrics=False, study=False))
    reasons = {}
    for name in metrics:
        search = recipe.search.replace(objectives=(name,), pick=name)
        alone = recipe.replace(metrics=recipe.metrics.replace(report=(name,)), search=search)
        problems = [text for text in lacking(alone, targets=False, study=False) if text not in rest]
        if problems:
            reasons[name] = problems[0]
    return reasons


def _is_foreign_knob(text: str, entry: Method) -> bool:
    keys = set_keys([text])
    return bool(keys) and keys[0][0] == "knobs" and len(keys[0]) == 2 and keys[0][1] not in knob_names(entry)


def _parse(
    table: Table, row: TableRow, use: DataUse, located: Located, sets: Sequence[str], metrics: Sequence[str]
) -> Recipe:
    tables = _tables(table, row, use, located, metrics) | {"sources": _sources(table, row, sets)}
    where = f"Row {row.id} of {table.id} on {use.id}"
    return parse(tomli_w.dumps(plain(tables)), sets, where=where, base=Path.cwd(), code=True)


def _tables(
    table: Table, row: TableRow, use: DataUse, located: Located, metrics: Sequence[str]
) -> dict[str, Any]:
    entry = method(row.program)
    names = knob_names(entry)
    shared = {name: value for name, value in {**table.knobs, **use.knobs}.items() if name in names}
    roles = dict.fromkeys((*table.roles, *entry.roles))
    paths = {part: str(path.absolute()) for part, path in located.paths.items()}
    draws = takes_train(table, row)
    return {
        "program": row.program,
        "seed": SEED,
        "knobs": {**shared, **row.knobs},
        "search": {"knobs": [], "trials": 1},
        "data": {
            "dataset": located.form.dataset,
            "questions": paths["questions"],
            "dev": paths["questions"],
            "train": paths["train"] if draws and "train" in paths else 0,
            "test": 0,
            "where": dict(located.form.where),
            **({"corpus": paths["corpus"]} if "corpus" in paths else {}),
        },
        "targets": {role: {"kind": "embedded"} for role in roles},
        "metrics": {"report": list(metrics)},
    }


def takes_train(table: Table, row: TableRow) -> bool:
    """Returns whether `row` learns from train questions."""
    return bool(row.train or table.train or "train" in row.needs)
