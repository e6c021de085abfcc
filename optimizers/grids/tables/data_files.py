"""The data sets of the papers' tables: their files, origin and licence.

An entry of `experiments/tables/data` lists forms: the official files, and files of ours in the format of
`ragc`'s questions and passages. The first form whose files are all in the folder of the data set is read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragc.corpora import datasets
from ragc.errors import ArtefactError, DataError

OPTIONAL = "train"
"""The part of a form that may be absent."""
OWN = "jsonl"
"""The reader of files in ragc's own format."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a data set's files.

    `files` has a pattern for each part: `questions`, `corpus` unless the questions contain their passages,
    and `train`. `dataset` is the reader of the questions, `where` a filter on them. `origin` is where these
    files come from, if not from the entry's home.
    """

    files: Mapping[str, str]
    dataset: str = OWN
    where: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    @property
    def needed(self) -> str:
        """The needed files in words."""
        names = [pattern for part, pattern in self.files.items() if part != OPTIONAL]
        words = " with ".join(name.removesuffix("*") for name in names)
        return f"{words} in ragc's own format" if self.dataset == OWN else words


@dataclass(frozen=True, slots=True)
class DataFolders:
    """A data set: its folders in `--data` (the first one that is there counts), its forms and its card.

    `home` and `licence` are those of the reader's card unless the entry names others.
    """

    id: str
    folders: tuple[str, ...]
    forms: tuple[Form, ...]
    home: str
    licence: str

    @property
    def wants(self) -> str:
        """The files of every form in words, the official ones first."""
        return ", or ".join(form.needed for form in self.official_first)

    @property
    def official_first(self) -> list[Form]:
        """The forms with those of the official files before files in ragc's own format."""
        return sorted(self.forms, key=lambda form: form.dataset == OWN)

    def locate(self, data: Path) -> Located | None:
        """Returns the files in the folder `data`; None if no form is complete."""
        for name in self.folders:
            folder = data / name
            for form in self.forms:
                paths = {part: _match(folder, pattern) for part, pattern in form.files.items()}
                if all(path for part, path in paths.items() if part != OPTIONAL):
                    return Located(form, {part: path for part, path in paths.items() if path})
        return None

    def absent(self, data: Path) -> str:
        """Returns the sentence that the data set is missing in `data`, with its files, origin and licence."""
        return (
            f"the data set {self.id} is not in {data / self.folders[0]}; it needs {self.wants}, from "
            f"{self.home}, under this licence: {self.licence}"
        )

    def to_json(self, data: Path) -> dict[str, Any]:
        """Returns JSON values only: the files that are needed, and those that exist."""
        located = self.locate(data)
        return {
            "id": self.id,
            "available": located is not None,
            "needs": [form.needed for form in self.official_first],
            "folder": str(data / self.folders[0]),
            "files": {} if located is None else {part: str(path) for part, path in located.paths.items()},
            "origin": self.home,
            "licence": self.licence,
        }


@dataclass(frozen=True, slots=True)
class Located:
    """A data set as it is in a folder: the form, and the path of each part."""

    form: Form
    paths: Mapping[str, Path]

    @property
    def questions(self) -> Path:
        """The file of the questions."""
        return self.paths["questions"]


def _match(folder: Path, pattern: str) -> Path | None:
    """Returns the first regular file in `folder`, by name, that fits `pattern`, or None."""
    try:
        return next((path for path in sorted(folder.glob(pattern)) if path.is_file()), None)
    except OSError:
        return None


@cache
def entries() -> Mapping[str, DataFolders]:
    """Returns all data sets of the tables, by id."""
    folder = files("ragc.experiments") / "tables" / "data"
    listed = [
        parse(tomllib.loads(entry.read_text("utf-8")), entry.name)
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    ]
    return {entry.id: entry for entry in sorted(listed, key=lambda item: item.id)}


def parse(values: Mapping[str, Any], name: str) -> DataFolders:
    """Returns the data set that the TOML file `name` describes. Raises ArtefactError with one sentence."""
    try:
        id = name.removesuffix(".toml")
        card = datasets.card(values.get("card", id))
        forms = tuple(_form(form) for form in values["forms"])
        return DataFolders(
            id,
            tuple(values.get("folders", (id,))),
            forms,
            values.get("home", card.home),
            values.get("licence", card.licence),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtefactError(f"{name} does not describe a data set: {error}; restore the file.") from None


def _form(values: Mapping[str, Any]) -> Form:
    parts = {part: values[part] for part in ("questions", "corpus", OPTIONAL) if part in values}
    rest = {key: values[key] for key in values if key not in parts}
    if "questions" not in parts:
        raise ValueError("a form names no questions")
    return Form(parts, **rest)


def absent_error(table: str, missing: list[str]) -> DataError:
    """Returns the error of a table without any of its data."""
    advice = "Name the folder that holds one folder a data set with --data."
    return DataError(f"Table {table}", [*missing[:-1], f"{missing[-1]}. {advice}"])
