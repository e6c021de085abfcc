"""Data sets by name: a card each, with a map of the official files, or a module that reads them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.corpora.datasets.cards import FILES, card

if TYPE_CHECKING:
    from ragc.corpora.datasets.base import Dataset

__all__ = ["BUILT_IN", "FILES", "built_in", "card", "load"]

BUILT_IN = frozenset({"pybuiltins", "pydocs"})
"""Data sets that come with ragc, questions and passages: modules of their id."""


def load(id: str, path: Path) -> Dataset:
    """Returns everything in an official file or folder of a data set.

    Raises UnknownName, or DataError with all problems.
    """
    from ragc.corpora.datasets import base

    facts = card(id)
    module: Any = importlib.import_module(f"{__name__}.{FILES[id]}") if FILES[id] else None
    if hasattr(module, "load"):
        loaded: Dataset = module.load(path)
        return loaded
    return base.load(facts, path, module and (lambda row: module.read(row, id)))


def built_in(id: str) -> Any:
    """Returns the module of a data set of `BUILT_IN`, with its `questions` and `passages`."""
    return importlib.import_module(f"{__name__}.{id}")
