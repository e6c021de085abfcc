"""Where a study lives: Optuna's storage, with what ragc keeps beside the trials in its attributes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna

from ragc.errors import StoreError, UsageError
from ragc.optimizers.study_file import FILE, journal

NAME = "ragc"
"""The name of the one study in a directory's storage."""


def storage(directory: Path, objectives: int, address: str = "", name: str = NAME) -> optuna.Study:
    """The study kept in `directory`, or as `name` on the server at `address`, made if it is not there.

    Raises StoreError, and UsageError when the library for the server is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _told(address or str(directory)):
        return optuna.create_study(
            storage=_server(address) if address else journal(directory),
            study_name=name,
            directions=["maximize" for _ in range(objectives)],
            load_if_exists=True,
        )


def opened(address: str, name: str) -> optuna.Study:
    """The study `name` of the storage at `address`, which must be there. Raises as `storage`."""
    with _told(address):
        return optuna.load_study(storage=_server(address), study_name=name)


def begun(directory: Path, name: str = NAME) -> optuna.Study | None:
    """The study called `name` that is kept in `directory`; None when there is none. Raises as `storage`."""
    if not (directory / FILE).exists():
        return None
    with _told(str(directory)):
        kept = journal(directory)
        return optuna.load_study(storage=kept, study_name=name) if kept.get_all_studies() else None


def delete(address: str, name: str) -> None:
    """Delete the study `name` of the storage at `address`, if it is there. Raises as `storage`."""
    with _told(address), suppress(KeyError):
        optuna.delete_study(storage=_server(address), study_name=name)


def _server(address: str) -> optuna.storages.RDBStorage:
    """A connection that has dropped is made again."""
    return optuna.storages.RDBStorage(address, engine_kwargs={"pool_pre_ping": True})


@contextmanager
def _told(where: str) -> Iterator[None]:
    """What Optuna and the database raise, as one sentence without the password."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise UsageError(
            f"The storage of the study needs a library that is not installed ({error}); run: pip install "
            "'ragc[postgres]' for PostgreSQL."
        ) from error
    except Exception as error:
        raise StoreError(
            f"The study at {_described(where)} cannot be opened ({_said(error, where)}); another process "
            "may hold it, its server may be down, or the disk may be full."
        ) from None


def _described(where: str) -> str:
    """`where` without a password."""
    if "://" not in where:
        return where
    from sqlalchemy.engine import make_url

    with suppress(Exception):  # an address that cannot be read may have its password anywhere
        url = make_url(where)
        return url.set(password=None, query={}).render_as_string()
    return "the address of its storage"


def _said(error: Exception, where: str) -> str:
    """The first line of the root cause, without the password of `where`."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = (str(root).strip() or type(root).__name__).splitlines()[0]
    if "://" in where and "@" in where:
        secret = where.partition("://")[2].rpartition("@")[0].partition(":")[2]
        text = text.replace(secret, "[redacted]") if secret else text
    return f"{type(root).__name__}: {text}"


class StudyKept:
    """JSON values by name, kept as attributes of an Optuna study."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._seen: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """What is kept under `name`, or None."""
        if name not in self._seen:
            found = self._study.user_attrs  # a copy of all of them
            if name not in found:
                return None
            self._seen[name] = found[name]
        return copy.deepcopy(self._seen[name])

    def put(self, name: str, value: Any) -> None:
        """Keep `value` under `name`."""
        self._study.set_user_attr(name, value)
        self._seen[name] = copy.deepcopy(value)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._study.user_attrs)


class Memory:
    """JSON values by name, kept by this process alone."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """What is kept under `name`, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep `value` under `name`."""
        self._values[name] = value

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._values)
