"""Where a study lives: Optuna's storage, with what ragc keeps beside the trials in its attributes."""

from __future__ import annotations

import copy
import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna

from ragc.errors import StoreError, UsageError
from ragc.masking import mask, place
from ragc.optimizers.study_file import FILE, DamagedJournal, journal

NAME = "ragc"
"""The name of the one study in a directory's storage."""


def storage(directory: Path, objectives: int, address: str = "", name: str = NAME) -> optuna.Study:
    """The study kept in `directory`, or as `name` on the server at `address`, made if it is not there.

    Raises StoreError, and UsageError when the library for the server is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _told(directory, address):
        return optuna.create_study(
            storage=_server(address) if address else journal(directory),
            study_name=name,
            directions=["maximize" for _ in range(objectives)],
            load_if_exists=True,
        )


def opened(address: str, name: str) -> optuna.Study:
    """The study `name` of the storage at `address`, which must be there. Raises as `storage`."""
    with _told(None, address):
        return optuna.load_study(storage=_server(address), study_name=name)


def begun(directory: Path, name: str = NAME) -> optuna.Study | None:
    """The study called `name` that is kept in `directory`, to be read; None when there is none.

    Raises as `storage`.
    """
    if not (directory / FILE).exists():
        return None
    with _told(directory):
        kept = journal(directory, mend=False)
        return optuna.load_study(storage=kept, study_name=name) if kept.get_all_studies() else None


def delete(address: str, name: str) -> None:
    """Delete the study `name` of the storage at `address`, if it is there. Raises as `storage`."""
    with _told(None, address), suppress(KeyError):
        optuna.delete_study(storage=_server(address), study_name=name)


def _server(address: str) -> optuna.storages.RDBStorage:
    """A connection that has dropped is made again."""
    return optuna.storages.RDBStorage(address, engine_kwargs={"pool_pre_ping": True})


@contextmanager
def _told(directory: Path | None, address: str = "") -> Iterator[None]:
    """What Optuna and the database raise, as one sentence without what is secret in `address`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    where = place(address) if address else str(directory)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise UsageError(
            f"The storage of the study needs a library that is not installed ({mask(str(error), address)}); "
            "run: pip install 'ragc[postgres]' for PostgreSQL."
        ) from None
    except Exception as error:
        raise StoreError(
            f"The study at {where} cannot be opened ({_said(error, address)}); {_remedy(error, address)}."
        ) from None


def _remedy(error: Exception, address: str) -> str:
    """What to do when a study cannot be opened."""
    if address:
        return (
            "see that the server is up and that the address of the storage, RAGC_STORAGE or study.storage, "
            "is one such as postgresql+psycopg://HOST/DATABASE"
        )
    if isinstance(error, OSError) and not isinstance(error, DamagedJournal):
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            return "another process may hold it: wait for it, or end it"
        return "see that its disk has space and grants access, then go on with --resume"
    return "it is damaged: begin anew without --resume or move the folder away; what was answered is replayed"


def _said(error: Exception, address: str) -> str:
    """The first line of the root cause, without what is secret in `address`."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = (str(root).strip() or type(root).__name__).splitlines()[0]
    named = "" if isinstance(root, DamagedJournal) else f"{type(root).__name__}: "
    return named + mask(text, address)


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
