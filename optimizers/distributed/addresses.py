"""Addresses of the servers that a study shares, those of its storage and of the call store.

What the environment says stands before what the recipe says: an address there may hold a password.
"""

from __future__ import annotations

import os
import sys

from ragc.core.paths import cache_home
from ragc.errors import UsageError
from ragc.recipe.resolved import STORAGE_ENV, STORE_ENV, StudySpec
from ragc.store.call_store import CallStore


def storage_address(spec: StudySpec) -> str:
    """The address of Optuna's storage: the environment's before the recipe's; "" for a file."""
    return os.environ.get(STORAGE_ENV) or spec.storage


def store_address(spec: StudySpec) -> str:
    """The address of the call store: the environment's before the recipe's; "" for a folder."""
    return os.environ.get(STORE_ENV) or spec.store


def refuse_shared(spec: StudySpec) -> None:
    """Raise UsageError when a study that is to keep nothing would share its state on a server."""
    for variable in (STORAGE_ENV, STORE_ENV):
        if not spec.keep and os.environ.get(variable):
            raise UsageError(
                f"study.keep = false keeps nothing, and {variable} names a server that would keep it; unset "
                f"{variable}, or leave study.keep out."
            )


HERE = StudySpec()


def open_store(spec: StudySpec = HERE) -> CallStore:
    """The call store of this user: on the server that RAGC_STORE or `spec` names, else in a folder.

    In memory alone, and unbounded there, when `spec` keeps nothing. Raises UsageError for an address that
    cannot be used, StoreError when the store cannot be opened.
    """
    refuse_shared(spec)
    if not spec.keep:
        return CallStore(None, memory=sys.maxsize)
    return CallStore.at(store_address(spec), cache_home() / "store")
