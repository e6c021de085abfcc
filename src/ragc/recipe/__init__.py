"""Recipes: read from TOML into models, and written back."""

from __future__ import annotations

from ragc.recipe.load import load, parse, set_keys, settings
from ragc.recipe.models import Budget, Data, GridSpec, Recipe, Search, SourceSpec, StudySpec, TrainingSpec

__all__ = [
    "Budget",
    "Data",
    "GridSpec",
    "Recipe",
    "Search",
    "SourceSpec",
    "StudySpec",
    "TrainingSpec",
    "load",
    "parse",
    "set_keys",
    "settings",
]
