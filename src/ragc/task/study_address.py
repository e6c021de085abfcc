"""The address of a study's storage, and the entries of `study.json` in its directory.

A study is identified by its folder, and in a database by the name in `study.json`. The environment variable
overrides the address in the recipe, because it may hold a password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from ragc.core.digest import canonical, digest, pretty
from ragc.core.files import make_private, put_file, read_text
from ragc.errors import ArtefactError
from ragc.recipe import Recipe, parse
from ragc.recipe.models import StudySpec

MARK = "study.json"
"""The name of the file in the study's directory."""

STORAGE_ENV = "RAGC_STORAGE"
"""The environment variable for the complete address of Optuna's storage, password included."""


def storage_address(spec: StudySpec) -> str:
    """Returns the address of Optuna's storage, from the environment or else the recipe; "" for a file."""
    return os.environ.get(STORAGE_ENV) or spec.storage


def read_address(directory: Path) -> dict[str, str]:
    """Returns the entries of `study.json` in `directory`; {} if there are none.

    `recipe` is the digest of the study's recipe, `code` that of a user's own program, and `name` its name in
    a database. `salt` names the run whose replies count, if they were requested again, and `run`
    the study as it began. Raises ArtefactError if the file cannot be read or is damaged.
    """
    path = directory / MARK
    try:
        entries = json.loads(read_text(path)) if path.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ArtefactError(f"{path} cannot be read ({error}); leave --resume out to begin anew.") from error
    if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
        raise ArtefactError(f"{path} is damaged; leave --resume out to begin anew.")
    return entries


def write_address(directory: Path, **values: str) -> None:
    """Writes `values` to `study.json` in `directory`; "" removes an entry."""
    entries = {name: value for name, value in {**read_address(directory), **values}.items() if value}
    make_private(directory)
    put_file(directory / MARK, pretty(entries).encode(), private=True)


def study_name(directory: Path) -> str:
    """Returns the unique name of the study in `directory` in a database; created on the first call."""
    name = read_address(directory).get("name")
    if not name:
        # Folders of two machines may have the same path.
        name = f"ragc-{digest(str(directory.resolve()))[:12]}-{uuid4().hex[:8]}"
        write_address(directory, name=name)
    return name


def recipe_in(directory: Path) -> Recipe:
    """Returns the recipe of the study in `directory`; files it names may be missing. Raises UsageError."""
    path = directory / "recipe.toml"
    try:
        text = read_text(path)
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
    """Returns the first of data, sources and targets in which two tasks differ; "" when all agree.

    So are the user's own metrics, where both name them.
    """
    names = ["data", "sources", "targets", *({"metrics"} & mine.keys() & theirs.keys())]
    return next((name for name in names if canonical(mine.get(name)) != canonical(theirs.get(name))), "")
