"""Addresses of a study's servers: its storage and the call store.

Environment variables override the recipe, because an address may hold a password.
"""

from __future__ import annotations

import os
import sys

from ragc.core.paths import cache_home
from ragc.errors import UsageError
from ragc.recipe.resolved import STORAGE_ENV, STORE_ENV, StudySpec
from ragc.store.call_store import CallStore


def storage_address(spec: StudySpec) -> str:
    """The address of Optuna's storage, from the environment or else the recipe; "" for a file."""
    return os.environ.get(STORAGE_ENV) or spec.storage


def store_address(spec: StudySpec) -> str:
    """The address of the call store, from the environment or else the recipe; "" for a folder."""
    return os.environ.get(STORE_ENV) or spec.store


def refuse_shared(spec: StudySpec) -> None:
    """Raises UsageError if a study with `keep = false` would store its state on a server."""
    for variable in (STORAGE_ENV, STORE_ENV):
        if not spec.keep and os.environ.get(variable):
            raise UsageError(
                f"study.keep = false keeps nothing, and {variable} names a server that would keep it; unset "
                f"{variable}, or leave study.keep out."
            )


HERE = StudySpec()


def open_store(spec: StudySpec = HERE) -> CallStore:
    """Opens the user's call store: on the server named by RAGC_STORE or `spec`, else in a folder.

    If `spec` does not keep the study, the store is in memory only, without a size limit. Raises UsageError
    for an unusable address, StoreError if the store cannot be opened.
    """
    refuse_shared(spec)
    if not spec.keep:
        return CallStore(None, memory=sys.maxsize)
    return CallStore.at(store_address(spec), cache_home() / "store")
