"""The folders of studies that users run in their own Optuna scripts: one folder a recipe file and name.

$RAGC_HOME/studies/optuna-STEM-DIGEST/
    study.json       the study's name, and its recipe file
    begun.toml       the identity of the recipe that the study began with
    recipe.toml      the recipe as it was last opened
    study.journal    Optuna's storage
    charges.sqlite3    what was charged to the recipe's budget
    at-work/         a locked file for each objective that is in use
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from ragc.core.digest import digest
from ragc.core.files import PRIVATE_FILE, cache_home, make_private, put_file
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.recipe import Recipe
from ragc.task.study_address import read_address, write_address

PREFIX = "optuna-"
"""What the names of these folders begin with."""

RECIPE = "recipe.toml"
_NAME = re.compile(r"[\w.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of one study. `name` is the study's name in its storage."""

    path: Path
    name: str

    @classmethod
    def of(cls, recipe: Recipe, *, name: str = "", file: str | Path = "") -> Folder:
        """Returns the folder for `recipe`, read from the recipe `file`; nothing is written.

        With a `name` the folder does not depend on the content of the recipe file; without one every change
        of the recipe's `identity` is another study. Raises UsageError for a name that cannot be a file's.
        """
        if name and not _NAME.fullmatch(name):
            raise UsageError(
                f"The name of a study is 1 to 80 letters, digits, dots, dashes and underlines, got {name!r}."
            )
        stem = re.sub(r"[^\w.-]", "_", Path(file).stem)[:60] or recipe.program
        base = str(recipe.base.resolve())
        marked = digest([name, base, stem] if name else [recipe.identity(), base, stem])[:12]
        return cls(
            cache_home() / "studies" / f"{PREFIX}{name or stem}-{marked}", name or f"{stem}-{marked[:8]}"
        )

    def claim(self, recipe: Recipe, file: str | Path = "") -> None:
        """Assigns the folder to `recipe`.

        Raises UsageError if it belongs to another recipe, and StoreError if it cannot be written.
        """
        try:
            self._claim(recipe, file)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise StoreError(f"The study cannot be kept in {self.path} ({why}); set RAGC_HOME.") from error

    def _claim(self, recipe: Recipe, file: str | Path) -> None:
        make_private(self.path)
        begun, text = self.path / "begun.toml", recipe.identity()
        if begun.exists() and begun.read_text("utf-8") != text:
            from ragc.optimizers.search.storage import difference

            change = difference(begun.read_text("utf-8"), text)
            raise UsageError(
                f"The recipe changed since the study {self.name!r} began ({change}); undo the change, or "
                "give the study another name."
            )
        put_file(begun, text.encode(), private=True)
        put_file(self.path / RECIPE, recipe.to_toml().encode(), private=True)
        where = str(Path(file).resolve()) if str(file) else ""
        owner = {"name": self.name, "file": where} if where else {"name": self.name}
        if not owner.items() <= read_address(self.path).items():
            write_address(self.path, **owner)

    def worker(self) -> FileLock:
        """Returns a lock that is held until the holder's process ends; its file name is the holder's name."""
        folder = self.path / "at-work"
        make_private(folder)
        lock = FileLock(folder / f"{uuid4().hex[:12]}.lock", mode=PRIVATE_FILE)
        lock.acquire(timeout=1)
        return lock

    def live_workers(self) -> frozenset[str]:
        """Returns the names of the holders that are alive; the files of others are removed."""
        holders = set()
        for path in (self.path / "at-work").glob("*.lock"):
            try:
                with FileLock(path, timeout=0):
                    pass
            except Timeout:
                holders.add(path.stem)
            else:
                path.unlink(missing_ok=True)
        return frozenset(holders)


def is_own(directory: Path) -> bool:
    """Returns whether `directory` is the folder of a study in a user's own script."""
    return directory.name.startswith(PREFIX) and (directory / "begun.toml").is_file()


def find(path: str | Path) -> Path | None:
    """Returns the folder of the study at `path`, which is a study's name or a recipe file.

    For a recipe file, the folder that was opened last; None if there is none. Raises ArtefactError if several
    studies have that name.
    """
    recipe_file = Path(path)
    by_folder: dict[Path, dict[str, str]] = {}
    for folder in sorted((cache_home() / "studies").glob(f"{PREFIX}*")):
        with suppress(ArtefactError):  # one that is damaged hides no other
            if is_own(folder):
                by_folder[folder] = read_address(folder)
    named = [folder for folder, entries in by_folder.items() if entries.get("name") == str(path)]
    if len(named) > 1:
        listed = ", ".join(str(folder) for folder in named)
        raise ArtefactError(f"Several studies are called {path}; name the folder of one: {listed}.")
    if named or not recipe_file.is_file():
        return named[0] if named else None
    own = [
        folder for folder, entries in by_folder.items() if entries.get("file") == str(recipe_file.resolve())
    ]
    return max(own, key=lambda folder: (folder / RECIPE).stat().st_mtime, default=None)
