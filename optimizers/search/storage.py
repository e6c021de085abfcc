"""Storage of a study in Optuna: a journal file (`journal`) or a server. ragc's own values are attributes."""

from __future__ import annotations

import copy
import errno
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import ndiff
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import optuna
from sqlalchemy.exc import SQLAlchemyError

from ragc.core.digest import digest
from ragc.core.files import cache_home, make_private
from ragc.core.redact import MASK, redact
from ragc.core.text import first_line
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.optimizers.search.journal import FILE, DamagedJournal, journal
from ragc.recipe.models import StudySpec
from ragc.task.study_address import storage_address, study_name

NAME = "ragc"
"""The name of the one study in a directory's storage."""


def storage(directory: Path, objectives: int, address: str = "", name: str = NAME) -> optuna.Study:
    """Opens the study in `directory`, or `name` on the server at `address`; it is created if it is missing.

    Raises StoreError, and UsageError when the library for the server is missing.
    """
    make_private(directory)
    with _translate_errors(directory, address):
        return optuna.create_study(
            storage=_server(address) if address else journal(directory),
            study_name=name,
            directions=["maximize" for _ in range(objectives)],
            load_if_exists=True,
        )


def name_objectives(study: optuna.Study, names: Sequence[str]) -> None:
    """Gives the values of `study` the `names` of its objectives, for programs that show it.

    A name begins with `-` if less is better: values are signed, and every direction is "maximize".
    """
    if study.metric_names != list(names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(list(names))


def close_study(study: optuna.Study) -> None:
    """Closes the connections of `study` to a server; a journal has none."""
    server = getattr(study._storage, "_backend", None)
    if isinstance(server, optuna.storages.RDBStorage):
        _disconnect(server)


def _disconnect(server: optuna.storages.RDBStorage) -> None:
    server.remove_session()
    server.engine.dispose()


def open_server_study(address: str, name: str) -> optuna.Study:
    """Opens the study `name` of the storage at `address`, which must exist. Raises what `storage` raises."""
    with _translate_errors(None, address):
        server = _server(address)
        try:
            return optuna.load_study(storage=server, study_name=name)
        except BaseException:
            _disconnect(server)
            raise


def read_study(directory: Path, name: str = NAME) -> optuna.Study | None:
    """Opens the study `name` in `directory` for reading; None if there is none.

    Raises what `storage` raises.
    """
    if not (directory / FILE).exists():
        return None
    with _translate_errors(directory):
        journal_storage = journal(directory, mend=False)
        return (
            optuna.load_study(storage=journal_storage, study_name=name)
            if journal_storage.get_all_studies()
            else None
        )


def delete(address: str, name: str) -> None:
    """Deletes the study `name` of the storage at `address`, if it exists. Raises what `storage` raises."""
    with _translate_errors(None, address):
        server = _server(address)
        try:
            with suppress(KeyError):
                optuna.delete_study(storage=server, study_name=name)
        finally:
            _disconnect(server)


def _server(address: str) -> optuna.storages.RDBStorage:
    """Returns the database storage at `address`, which reconnects after a dropped connection."""
    return optuna.storages.RDBStorage(address, engine_kwargs={"pool_pre_ping": True})


@contextmanager
def _translate_errors(directory: Path | None, address: str = "") -> Iterator[None]:
    """Raises errors of Optuna and the database as one sentence, without the secrets in `address`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place = directory if not address else address.partition("?")[0]
    where = "on its server" if "@" in address else f"at {place}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise UsageError(
            f"The storage of the study needs a library that is not installed ({_root_cause(error, address)})"
            "; run: pip install 'psycopg[binary]' for PostgreSQL."
        ) from None
    except Exception as error:
        raise StoreError(
            f"The study {where} cannot be opened ({_root_cause(error, address)}); {_remedy(error, address)}."
        ) from None


def _remedy(error: Exception, address: str) -> str:
    """Returns the advice for a study that cannot be opened."""
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


def _root_cause(error: Exception, address: str) -> str:
    """Returns the first line of the root cause, without the secrets in `address`."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = first_line(root, None)
    # A driver takes a / or @ in a password for its end, and reports the rest as host or port.
    password = re.sub(r"^[\w+.-]+://", "", address).rpartition("@")[0].partition(":")[2]
    for part in filter(None, re.split(r"[/?#@:]", unquote(password))):
        text = text.replace(part, MASK)
    return ("" if isinstance(root, DamagedJournal) else f"{type(root).__name__}: ") + redact(text)


class StudyAttributes:
    """Named JSON values, stored as attributes of an Optuna study."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._seen: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Returns the value stored under `name`, or None."""
        if name not in self._seen:
            attributes = self._study.user_attrs  # a copy of all of them
            if name not in attributes:
                return None
            self._seen[name] = attributes[name]
        return copy.deepcopy(self._seen[name])

    def put(self, name: str, value: Any) -> None:
        """Stores `value` under `name`."""
        self._study.set_user_attr(name, value)
        self._seen[name] = copy.deepcopy(value)

    def names(self) -> list[str]:
        """Returns all names, sorted."""
        return sorted(self._study.user_attrs)


class InMemoryAttributes:
    """Named JSON values in the memory of this process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Returns the value stored under `name`, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Stores `value` under `name`."""
        self._values[name] = value

    def names(self) -> list[str]:
        """Returns all names, sorted."""
        return sorted(self._values)


def study_directory(out: Path) -> Path:
    """Returns the state directory of the study whose compiled program is written to `out`."""
    return cache_home() / "studies" / f"{out.name[:60]}-{digest(str(out.resolve()))[:12]}"


def default_out(recipe: str | Path) -> Path:
    """Returns the folder that a compile of the file `recipe` writes to where none is named."""
    return Path("compiled") / Path(recipe).stem


def difference(before: str, after: str) -> str:
    """Returns the removed (-) and added (+) lines, at most three, then the number of the others."""
    lines = [f"{line[0]} {line[2:]}" for line in ndiff(before.splitlines(), after.splitlines())]
    changed = [line for line in lines if line[0] in "+-" and line[2:].strip()]
    return "; ".join(changed[:3]) + (f"; and {len(changed) - 3} more" if len(changed) > 3 else "")


def find(path: str | Path) -> Path:
    """Returns the study directory for `path`, which is as in `status`. Raises ArtefactError."""
    outs = [Path(path), default_out(path)] if Path(path).suffix == ".toml" else [Path(path)]
    for directory in (Path(path), *map(study_directory, outs)):
        if (directory / "recipe.toml").is_file() and not (directory / "program.json").exists():
            return directory
    raise ArtefactError(
        f"No study is known at {redact(str(path))}; name the --out directory of a compile on this machine, "
        f"the recipe or the name of a study of ragc.study, or a folder in {cache_home() / 'studies'}."
    )


def is_outside(directory: Path) -> bool:
    """Returns whether `directory`, links resolved, is outside the studies folder of this machine's cache."""
    return not directory.resolve().is_relative_to((cache_home() / "studies").resolve())


def study_in(directory: Path, spec: StudySpec, objectives: int) -> optuna.Study:
    """Returns the study of `directory`, in its folder or on the server that `spec` names; created if it is
    missing.

    Raises StoreError, and UsageError if the library for the server is missing.
    """
    address = storage_address(spec)
    return storage(directory, objectives, address, study_name(directory) if address else NAME)


@contextmanager
def translate_storage_errors(directory: Path) -> Iterator[None]:
    """Raises errors of the state of the study in `directory` as one StoreError."""
    try:
        yield
    except (optuna.exceptions.OptunaError, SQLAlchemyError, OSError) as error:
        if isinstance(error, OSError) and str(directory) not in str(error.filename):
            raise
        cause = error.__cause__ or error
        root = getattr(cause, "orig", None) or cause
        reason = next(iter(str(root).splitlines()), "") or type(root).__name__
        if isinstance(error, DamagedJournal):
            raise StoreError(
                f"The study in {directory} is damaged ({reason}); begin anew without --resume, which replays "
                "what was answered."
            ) from error
        raise StoreError(
            f"The state of the study in {directory} cannot be written or read any more ({reason}); see that "
            "its disk or server is there and that no other program holds it, then go on with --resume."
        ) from error
