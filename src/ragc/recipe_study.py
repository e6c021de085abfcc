"""The `[study]` table of a recipe: where a study's state is kept, if at all, and who runs its trials."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragc.masking import secrets
from ragc.recipe_table import Table
from ragc.store import ADDRESSES

STORE_ENV, STORAGE_ENV = "RAGC_STORE", "RAGC_STORAGE"
"""Variables of the environment that hold whole addresses, with a password where one is needed."""

_STORAGE = re.compile(r"(postgresql|mysql|mariadb)(\+\w+)?://\S+")
_WORKERS = re.compile(r"ray|[^\s/@:]+:[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class StudySpec:
    """Where a study is; "" for the folders of this machine and for this process.

    `storage` is the address of Optuna's storage, `store` that of the call store, `workers` that of a Ray
    cluster, HOST:PORT, or "ray": the one in RAY_ADDRESS, else one that is started here. None of them holds a
    password: an address with one goes into the environment, `RAGC_STORAGE` and `RAGC_STORE`, which stand
    before what the recipe says; a PostgreSQL password may also stand in PGPASSWORD. `keep` False holds
    prompts and replies in memory and removes the study's folder at the end: no address goes with it.
    """

    storage: str = ""
    store: str = ""
    workers: str = ""
    keep: bool = True


def read_study(table: Table) -> StudySpec:
    """The addresses of a study; what is wrong with them is noted."""
    found = StudySpec(
        table.text("storage"), table.text("store"), table.text("workers"), table.switch("keep", True)
    )
    table.close()
    for key, variable in (("storage", STORAGE_ENV), ("store", STORE_ENV), ("workers", "RAY_ADDRESS")):
        if secrets(getattr(found, key)):
            told = f"{table.name(key)} must not hold a password: recipes are passed on"
            table.note(key, f"{told}; put the address into the environment, {variable}")
            return StudySpec()
    if found.storage and not _STORAGE.fullmatch(found.storage):
        table.wrong("storage", "an address such as postgresql+psycopg://HOST/DATABASE")
    if found.store and not found.store.startswith(ADDRESSES):
        table.wrong("store", "an address such as redis://HOST:PORT/0")
    if found.workers and not _WORKERS.fullmatch(found.workers):
        table.wrong("workers", '"ray" or the address of a Ray cluster, HOST:PORT')
    for key in ("storage", "store", "workers"):
        if getattr(found, key) and not found.keep:
            table.note(
                key,
                f"{table.name(key)} shares what a study keeps, and keep = false keeps nothing; leave one out",
            )
    return found
