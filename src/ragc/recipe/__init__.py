"""Recipes: TOML read into validated records, and written back."""

from __future__ import annotations

from ragc.recipe.load import load, parse, set_keys
from ragc.recipe.models import Budget, Data, Recipe, Search, SourceSpec
from ragc.recipe.validate import OPTIMIZERS

__all__ = ["OPTIMIZERS", "Budget", "Data", "Recipe", "Search", "SourceSpec", "load", "parse", "set_keys"]
