"""Addresses of a study's servers: its storage and the call store.

Environment variables override the recipe, because an address may hold a password.
"""

from __future__ import annotations

import os

from ragc.recipe.models import StudySpec
from ragc.store.call_store import STORAGE_ENV, STORE_ENV


def storage_address(spec: StudySpec) -> str:
    """Returns the address of Optuna's storage, from the environment or else the recipe; "" for a file."""
    return os.environ.get(STORAGE_ENV) or spec.storage


def store_address(spec: StudySpec) -> str:
    """Returns the address of the call store, from the environment or else the recipe; "" for a folder."""
    return os.environ.get(STORE_ENV) or spec.store
