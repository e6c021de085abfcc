"""The directory of a study, locked by one process. A study begins, or resumes with the same recipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ragc.compiled.base import RUN
from ragc.core.digest import digest
from ragc.core.files import APART, NEW, make_private, put_file, read_text, remove
from ragc.errors import ArtefactError, RecipeError, StoreError, UsageError
from ragc.optimizers.search.journal import FILE as STUDY_FILE
from ragc.optimizers.search.storage import delete, difference, study_directory
from ragc.recipe import Recipe
from ragc.task.run import lock_state
from ragc.task.study_address import (
    MARK,
    read_address,
    recipe_in,
    storage_address,
    write_address,
)

PROGRAMS = ".best"
"""The folder of compiled programs in the study's directory."""

_PATTERNS = (
    "recipe.toml.new", ".recipe.toml-*", MARK, f".{MARK}-*", f"{STUDY_FILE}*", "study.log",
    "charges.sqlite3*", "trials.json", "best", f"{PROGRAMS}-*", "provenance.json", "dev.jsonl",
    "seen.json", "test-*.jsonl",
)  # fmt: skip

FOLD = "fold-"
"""The beginning of the name of a folder with the study without a fold, in the study's directory."""

EARLIER = ".earlier"
"""The folder, in the study's directory, of the study that a new one replaces, until `forget_earlier`."""


def fold_directory(directory: Path, number: int) -> Path:
    """Returns the directory of the study without the fold `number`, inside that of the whole."""
    return directory / f"{FOLD}{number}"


def write_fold_number(directory: Path, number: int) -> None:
    """Records how many folds the study in `directory` has; 0 for no cross-validation."""
    write_address(directory, folds=str(number) if number else "")


def fold_number(directory: Path) -> int:
    """Returns how many folds the study in `directory` has; 0 without a cross-validation."""
    entry = read_address(directory).get("folds", "")
    return int(entry) if entry.isdecimal() else 0


@contextmanager
def open_directory(out: Path, recipe: Recipe, resume: bool, again: bool = False) -> Iterator[Path]:
    """Locks and yields the study's directory. On resume a recipe with another identity is refused.

    With `again` the study begins a new run, in which every reply is requested again, under a salt of its own;
    a resumed one keeps the salt with which it began, and so does a later study of the same `out`. `salt_of`
    reads it.

    A new study sets an earlier one aside, and on exit this comes back, unless `forget_earlier` was called: a
    study that is refused for its data leaves the earlier one as it was.

    Raises UsageError.
    """
    directory = study_directory(out)
    if directory.is_symlink():
        raise UsageError(f"{directory} is a link, and a study is kept in a folder; remove the link.")
    # `ragc study status` holds the lock for a moment.
    with lock_state(out, directory, "compiling to", wait_s=0.5):
        try:
            _restore_earlier(directory)  # of a killed process
            _begin(directory, out, recipe, resume, again)
            yield directory
        finally:
            with suppress(OSError):
                _restore_earlier(directory)


def _begin(directory: Path, out: Path, recipe: Recipe, resume: bool, again: bool) -> None:
    """Begins the study of `out` in `directory`, or goes on with it. Raises UsageError as `open_directory`."""
    text = recipe.to_toml()
    written, salt = directory / "recipe.toml", salt_of(directory)
    if not (resume and written.exists()):  # a directory without a recipe is the rest of a killed study
        _set_aside(directory)
        salt = uuid4().hex[:16] if again else salt
    elif again and not salt:
        raise UsageError(
            f"--again asks anew from the beginning, and --resume goes on with the study of {out}, which "
            "was begun without it; leave one out."
        )
    elif change := _change(directory, recipe):
        raise UsageError(
            f"The recipe changed since the study of {out} began ({change}); undo the change, or leave "
            "--resume out to begin anew."
        )
    make_private(directory)
    write_address(directory, salt=salt)  # before the recipe: with that there is a study to resume
    put_file(written, text.encode(), private=True)
    write_address(directory, recipe=digest(text), code=recipe.method.code)


def _set_aside(directory: Path) -> None:
    """Moves the study in `directory`, if there is one, to `EARLIER`, where `_restore_earlier` takes it from.

    The folder has its name only when all is there; one of a process that was killed before is put back.
    """
    study = _study_paths(directory)
    if not study:
        return
    partly = make_private(directory / f"{EARLIER}-part")
    for path in study:
        path.rename(partly / path.name)
    partly.rename(directory / EARLIER)


def _restore_earlier(directory: Path) -> bool:
    """Puts the study that a new one has set aside back in its place. Returns whether there was one."""
    _discard(directory / f"{EARLIER}-old")
    partly, whole = directory / f"{EARLIER}-part", directory / EARLIER
    if whole.is_dir():
        delete_address(directory)
        clear(directory)
        whole.rename(partly)
    if not partly.is_dir():
        return False
    for path in _study_paths(partly):
        path.rename(directory / path.name)
    partly.rmdir()
    return True


def forget_earlier(directory: Path) -> None:
    """Deletes the study that the new one in `directory` replaces, on its servers too.

    It loses its name first, so that after a kill what is left of it is not put back.
    """
    earlier, old = directory / EARLIER, directory / f"{EARLIER}-old"
    if earlier.is_dir():
        _discard(old)
        earlier.rename(old)
    _discard(old)


def _discard(earlier: Path) -> None:
    """Deletes a study that was set aside, if it is there."""
    if earlier.is_dir():
        delete_address(earlier)
        clear(earlier)


def salt_of(directory: Path) -> str:
    """Returns the salt of the study in `directory`; "" if replies were never requested again."""
    with suppress(ArtefactError):
        return read_address(directory).get("salt", "")
    return ""


def run_of(directory: Path) -> str:
    """Returns the name of the run that the study in `directory` began with; made by the first caller."""
    name = read_address(directory).get("run") or uuid4().hex[:16]
    write_address(directory, run=name)
    return name


def _change(directory: Path, recipe: Recipe) -> str:
    """Returns how `recipe` differs from the recipe of the study in `directory`; "" for equal identities.

    A budget is no part of the identity, so it may be raised. Raises ArtefactError if the study's recipe is
    damaged.
    """
    if recipe.method.code != read_address(directory).get("code", ""):
        return f"the module of {recipe.program!r}"
    text = recipe.to_toml()
    before = read_text(directory / "recipe.toml", errors="replace")
    if before == text or digest(text) == read_address(directory).get("recipe"):
        return ""
    try:
        return difference(recipe_in(directory).identity(), recipe.identity())
    except RecipeError:  # written by a version of ragc with other recipe keys
        return difference(before, text)


def delete_address(directory: Path) -> None:
    """Deletes the study in `directory` from its database, if that can be reached."""
    with suppress(StoreError, UsageError, OSError):
        name = read_address(directory).get("name")
        if not name:
            return
        if storage := storage_address(recipe_in(directory).study):
            delete(storage, name)


def clear(directory: Path) -> None:
    """Removes the files of a study from `directory` by their names; other files stay.

    `directory` is a real folder of the cache, named by a digest. Raises OSError.
    """
    for path in _study_files(directory):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
    for left in directory.glob(f"{APART}*/"):  # of a killed process
        with suppress(OSError):
            (left / NEW).unlink()
            left.rmdir()
    for fold in directory.glob(f"{FOLD}*"):
        if fold.is_dir() and not fold.is_symlink():
            clear(fold)
    with suppress(OSError):
        for held in (directory / PROGRAMS).iterdir():
            if not held.is_symlink():
                remove(held, RUN)
        (directory / PROGRAMS).rmdir()
    with suppress(OSError):
        directory.rmdir()


def _study_paths(directory: Path) -> list[Path]:
    """Returns the files and folders of the study in `directory` that are there, the recipe last."""
    names = {path.name: path for path in _study_files(directory)}
    folders = [*directory.glob(f"{FOLD}*"), directory / PROGRAMS]
    paths = [*folders, *reversed(names.values())]
    return [path for path in paths if path.is_symlink() or path.exists()]


def _study_files(directory: Path) -> list[Path]:
    """Returns the study's files, the recipe first: a study without a recipe is not resumed."""
    files = (path for pattern in _PATTERNS for path in sorted(directory.glob(pattern)))
    return [directory / "recipe.toml", *files]
