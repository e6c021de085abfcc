"""Data sets by name: a card each, `<id>.toml`, has facts for users, and how the official files are read."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UnknownName

if TYPE_CHECKING:
    from ragc.corpora.datasets.base import Dataset

BUILT_IN = frozenset({"pybuiltins", "pydocs"})
"""Data sets that come with ragc, questions and passages: modules of their id."""

FILES = (
    *("hotpotqa", "2wikimultihopqa", "musique", "bioasq", "nq", "triviaqa", "popqa", "arc_challenge"),
    *("openbookqa", "asqa", "qampari", "eli5", "crag", "kilt", "kilt_eli5", "beir", "autorag", "ragas"),
)
"""The ids of the data sets that are read from official files."""

_FACTS = ("id", "about", "file", "licence", "home", "citation", "splits", "metrics", "answer_format", "under")


@dataclass(frozen=True, slots=True)
class Card:
    """The facts about a data set for users, and how its rows are read.

    `file` names the official files to use. `splits` are the official numbers of questions. `metrics` are the
    ids of the metrics in its papers, and `answer_format` the suitable value of that knob. `under` is the key
    of the list in a JSON file that holds an object.

    `fields` has the paths of a field, separated by spaces, of which the first that a row has counts, or for
    answers all; other fields have their usual names. A row may lack an id where `id_from` is "question", from
    which it is derived, or "#", the row's number. `extra` has the paths of other values to keep, by name;
    without it all are. `passages` says where a row has passages: `under` which keys, the name of their
    `text`, and that of `gold`, which is true for those that support the answer ("*": all do). Rows with a
    value in `skip` are left out.
    """

    id: str
    about: str
    file: str
    licence: str
    home: str
    citation: str
    splits: Mapping[str, int] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("em", "f1")
    answer_format: str = "short"
    under: str = ""
    id_from: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    passages: Mapping[str, str] = field(default_factory=dict)
    skip: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object for `ragc list datasets --json`."""
        return {name: getattr(self, name) for name in _FACTS}


@cache
def card(id: str) -> Card:
    """Returns the card of a data set. Raises UnknownName."""
    if id not in FILES:
        raise UnknownName("data set", id, FILES)
    return Card(**tomllib.loads(Path(__file__).with_name(f"{id}.toml").read_text("utf-8")))


def load(id: str, path: Path) -> Dataset:
    """Returns everything in an official file or folder of a data set.

    Raises UnknownName, or DataError with all problems.
    """
    from ragc.corpora.datasets import base, folders, prepare

    if id in folders.READERS:
        return folders.READERS[id](card(id), path)
    return base.load(card(id), path, prepare.PREPARE.get(id))


def built_in(id: str) -> Any:
    """Returns the module of a data set of `BUILT_IN`, with its `questions` and `passages`."""
    return importlib.import_module(f"{__name__}.{id}")
