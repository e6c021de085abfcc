"""The shared state of a study's processes: a name, a storage, a call store and a budget.

A study of one process is identified by its folder. A study with state on servers is found there by the name
in its directory's `study.json`. The same file records the address that workers join.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import optuna

from ragc.compiled.base import RUN
from ragc.core import inputs, outputs
from ragc.core.digest import add_digest, canonical, digest, pretty, verify_digest
from ragc.core.home.private import make_private, replace_private
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.optimizers.distributed.budget import SharedLedger
from ragc.optimizers.search.storage import FILE, NAME, delete, storage
from ragc.recipe import Budget, Recipe, parse
from ragc.recipe.models import StudySpec
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.store.call_store import STORAGE_ENV, STORE_ENV
from ragc.task.addresses import storage_address, store_address

MARK = "study.json"
"""The name of the file in the study's directory."""

STANDING = "parts.json"
"""The file in the study's directory that says how each optimizer of a portfolio stands."""

PROGRAMS = ".best"
"""The folder of compiled programs in the study's directory."""

_PATTERNS = (
    "recipe.toml.new", ".recipe.toml-*", MARK, f".{MARK}-*", f"{FILE}*", "study.log",
    "charges.jsonl", "trials.json", "best", STANDING, f"{PROGRAMS}-*", "provenance.json", "dev.jsonl",
    "seen.json", "test-*.jsonl",
)  # fmt: skip


def read_address(directory: Path) -> dict[str, str]:
    """The entries of `study.json` in `directory`; {} if there are none.

    `recipe` is the digest of the study's recipe, `code` that of a program of the user's own, `name` its name
    on servers, and `workers` the cluster's address while there is one. `epoch` names the time from which its
    replies count, where they were asked for anew, and `run` the study as it began. Raises ArtefactError if
    the file cannot be read or is damaged.
    """
    path = directory / MARK
    try:
        entries = json.loads(inputs.read_text(path)) if path.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ArtefactError(f"{path} cannot be read ({error}); leave --resume out to begin anew.") from error
    if not (isinstance(entries, dict) and entries.keys() <= {"name", "workers"}):  # older format
        entries = verify_digest(entries)
    if entries is None or not all(isinstance(value, str) for value in entries.values()):
        raise ArtefactError(f"{path} is damaged; leave --resume out to begin anew.")
    return entries


def write_address(directory: Path, **values: str) -> None:
    """Writes `values` to `study.json` in `directory`; "" removes an entry."""
    entries = {name: value for name, value in {**read_address(directory), **values}.items() if value}
    make_private(directory)
    replace_private(directory / MARK, pretty(add_digest(entries)))


def study_name(directory: Path) -> str:
    """The unique name of the study in `directory` on its servers; created on the first call."""
    name = read_address(directory).get("name")
    if not name:
        # Folders of two machines may have the same path.
        name = f"ragc-{digest(str(directory.resolve()))[:12]}-{uuid4().hex[:8]}"
        write_address(directory, name=name)
    return name


def study_in(directory: Path, spec: StudySpec, objectives: int) -> optuna.Study:
    """The study of `directory`, in its folder or on the server that `spec` names; created if it is missing.

    Raises StoreError, and UsageError if the library for the server is missing.
    """
    address = storage_address(spec)
    return storage(directory, objectives, address, study_name(directory) if address else NAME)


def ledger_of(recipe: Recipe, directory: Path) -> SharedLedger | None:
    """The ledger shared by all workers of the study, ready for use; None for a study without workers.

    Raises UsageError if the workers share no storage or no store, and for an optimizer that runs in one
    process.
    """
    if not recipe.study.workers:
        return None
    if recipe.search.optimizer != OWN_OPTIMIZER:
        raise UsageError(
            f"The optimizer {recipe.search.optimizer!r} runs in one process; leave study.workers out, or "
            f'set search.optimizer = "{OWN_OPTIMIZER}".'
        )
    for address, key, variable, example in (
        (storage_address(recipe.study), "storage", STORAGE_ENV, "postgresql+psycopg://HOST/DATABASE"),
        (store_address(recipe.study), "store", STORE_ENV, "redis://HOST:PORT/0"),
    ):
        if not address:
            raise UsageError(
                f"study.workers needs study.{key}, which all workers reach, found none; set it to an address "
                f"such as {example}, or {variable} in the environment of every worker."
            )
    ledger = SharedLedger(store_address(recipe.study), study_name(directory), recipe.budget)
    ledger.begin()
    return ledger


def delete_address(directory: Path) -> None:
    """Deletes the study in `directory` from its servers, if they are reachable; calls stay in the store."""
    with suppress(StoreError, UsageError, OSError):
        name = read_address(directory).get("name")
        if not name:
            return
        spec = recipe_in(directory).study
        if storage := storage_address(spec):
            delete(storage, name)
        if spec.workers and (store := store_address(spec)):
            ledger = SharedLedger(store, name, Budget())
            ledger.forget()
            ledger.close()


def clear(directory: Path) -> None:
    """Removes the files of a study from `directory` by their names; other files stay.

    `directory` is a real folder of the cache, named by a digest. Raises OSError.
    """
    for path in _study_files(directory):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
    for left in directory.glob(f"{outputs.APART}*"):  # of a killed process
        outputs.discard_file(left)
    with suppress(OSError):
        for held in (directory / PROGRAMS).iterdir():
            if not held.is_symlink():
                outputs.remove(held, RUN)
        (directory / PROGRAMS).rmdir()
    with suppress(OSError):
        directory.rmdir()


def _study_files(directory: Path) -> list[Path]:
    """The study's files, the recipe first: a study without a recipe is not resumed."""
    files = (path for pattern in _PATTERNS for path in sorted(directory.glob(pattern)))
    return [directory / "recipe.toml", *files]


def recipe_in(directory: Path) -> Recipe:
    """The recipe of the study in `directory`; the files it names may be missing. Raises UsageError."""
    path = directory / "recipe.toml"
    try:
        text = inputs.read_text(path)
    except OSError as error:
        raise ArtefactError(f"{directory} holds no study: {path.name} cannot be read ({error}).") from error
    except ValueError:
        text = ""
    if digest(text) != read_address(directory).get("recipe", digest(text)) or not text:
        raise ArtefactError(
            f"{path} is damaged; leave --resume out to begin anew, which replays what was answered."
        )
    return parse(text, where=str(path), base=directory, files=False, stored=True)


def facts_differ(mine: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    """The first of data, sources and targets in which two tasks differ; "" when all agree."""
    names = ("data", "sources", "targets")
    return next((name for name in names if canonical(mine.get(name)) != canonical(theirs.get(name))), "")
