"""Data sets by name: one file each, with a card and a reader of the official format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UnknownName

if TYPE_CHECKING:
    from ragc.corpora.datasets.base import Card, Dataset

FILES = {
    "hotpotqa": "hotpotqa",
    "2wikimultihopqa": "wikimultihop",
    "musique": "musique",
    "bioasq": "bioasq",
    "nq": "nq",
    "triviaqa": "triviaqa",
    "popqa": "popqa",
    "arc_challenge": "arc_challenge",
    "openbookqa": "openbookqa",
    "asqa": "asqa",
    "qampari": "qampari",
    "eli5": "eli5",
    "crag": "crag",
    "kilt": "kilt",
    "kilt_eli5": "kilt_eli5",
    "beir": "formats.beir",
    "autorag": "formats.autorag",
    "ragas": "formats.ragas",
}
"""The module of each data set that is read from official files, by its id."""

BUILT_IN = frozenset({"pybuiltins", "pydocs"})
"""Data sets that come with ragc, questions and passages: modules of their id."""


def card(id: str) -> Card:
    """Returns the card of a data set. Raises UnknownName."""
    result: Card = _module(id).CARD
    return result


def load(id: str, path: Path) -> Dataset:
    """Returns everything in an official file or folder of a data set.

    Raises UnknownName, or DataError with all problems.
    """
    module = _module(id)
    if (load_folder := getattr(module, "load", None)) is not None:
        loaded: Dataset = load_folder(path)
        return loaded
    from ragc.corpora.datasets.base import load as load_file

    return load_file(module.CARD, module.read, path)


def built_in(id: str) -> Any:
    """Returns the module of a data set of `BUILT_IN`, with its `questions` and `passages`."""
    return importlib.import_module(f"{__name__}.{id}")


def _module(id: str) -> Any:
    if id not in FILES:
        raise UnknownName("data set", id, FILES)
    return importlib.import_module(f"ragc.corpora.datasets.{FILES[id]}")
