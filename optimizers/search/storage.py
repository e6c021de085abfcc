"""Storage of a study in Optuna: a journal file or a server. ragc's own values are study attributes.

On one machine the storage is Optuna's journal, one file that survives a kill without loss. Each operation is
one line of JSON, flushed to disk before the next. The line holds its digest under `ragc.check`, which Optuna
ignores. Lines by other programs, such as Optuna's dashboard, have no digest and are read too.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import ndiff
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file
from sqlalchemy.exc import SQLAlchemyError

from ragc.core.digest import digest
from ragc.core.home.private import FILE as PRIVATE
from ragc.core.home.private import create_private, make_private
from ragc.core.paths import cache_home
from ragc.core.redact import bare_address, mask, secrets
from ragc.core.text import first_line
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.recipe.models import StudySpec
from ragc.task.addresses import storage_address
from ragc.task.study_address import study_name

FILE = "study.journal"
"""The name of the file in the study's directory."""

WAIT_S = 3.0
"""Seconds to wait for another process to release the file."""

_CHECK = "ragc.check"
_BEGINNING = b'{"op_code":'


class DamagedJournal(OSError):
    """The journal is damaged. `filename` names the file and the text describes the damage."""

    def __str__(self) -> str:
        return str(self.strerror)


def journal(directory: Path, *, mend: bool = True) -> JournalStorage:
    """Opens the journal in `directory`, which must exist; the file is created if it is missing.

    A half-written last line, left by a killed process, is cut off, or ignored with `mend=False`.

    Raises OSError, DamagedJournal when the file is no journal or one of its lines is damaged.
    """
    if mend:
        create_private(directory / FILE)
    return JournalStorage(_Lines(directory / FILE, mend))


class _Lock(JournalFileOpenLock):
    """A file lock that the system releases when its process dies. Optuna's own would block the next one for
    30 s.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._held = FileLock(f"{path}.lock", timeout=WAIT_S, mode=PRIVATE)

    def acquire(self) -> bool:
        try:
            self._held.acquire()
        except Timeout:
            raise OSError(errno.EWOULDBLOCK, "it is locked", str(self._path)) from None
        return True

    def release(self) -> None:
        self._held.release()


class _Lines(JournalFileBackend):
    """The journal as lines with digests. While it gathers, lines wait and are written at once at the end."""

    def __init__(self, path: Path, mend: bool) -> None:
        self._path, lock = path, _Lock(path)
        self._waiting: list[dict[str, Any]] | None = None
        self._first_waiting = 0
        lock.acquire()
        try:
            if mend and path.exists():
                _mend(path)
            super().__init__(str(path), lock)
        finally:
            lock.release()

    @contextmanager
    def gathering(self, number: int) -> Iterator[None]:
        """Writes what is appended meanwhile with one append at the end, an error included.

        `number` is the number of lines so far, all of which were read. The caller holds the lock. Raises
        DamagedJournal where the file holds more than that.
        """
        size = self._path.stat().st_size if self._path.exists() else 0
        if size and self._log_number_offset.get(number, size) != size:
            raise _damage_error(self._path, f"line {number + 1} of {self._path.name} is damaged")
        self._first_waiting, self._waiting = number, []
        try:
            yield
        finally:
            logs, self._waiting = self._waiting, None
            if logs:
                self.append_logs(logs)
                # Where the next lines begin; else they would be searched for from the first one.
                self._log_number_offset[number + len(logs)] = self._path.stat().st_size

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if self._waiting is not None:
            self._waiting += [json.loads(json.dumps(log)) for log in logs]
            return
        if not self._path.exists():  # a new file would lack the earlier operations
            raise FileNotFoundError(errno.ENOENT, "it is gone", str(self._path))
        super().append_logs([{**log, _CHECK: _digest(log)} for log in logs])

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        if self._waiting is not None:
            yield from self._waiting[log_number_from - self._first_waiting :]
            return
        number = log_number_from
        try:
            for log in super().read_logs(log_number_from):
                number += 1
                yield _verify_line(log)
        except (ValueError, RecursionError) as error:
            at = number + (not isinstance(error, _DamagedLine))
            raise _damage_error(self._path, f"line {at} of {self._path.name} is damaged") from None


def _damage_error(path: Path, what: str) -> DamagedJournal:
    return DamagedJournal(errno.EIO, what, str(path))


class _DamagedLine(ValueError):
    """A line that is valid JSON but fails its check."""


def _verify_line(log: Any) -> dict[str, Any]:
    """A line of the journal without its digest. Raises ValueError when it is damaged."""
    if not isinstance(log, dict):
        raise _DamagedLine
    entry = {name: value for name, value in log.items() if name != _CHECK}
    # With a damaged digest name the line would look like one of another program.
    renamed = any("ragc" in name or "check" in name for name in entry)
    if renamed or log.get(_CHECK, _digest(entry)) != _digest(entry):
        raise _DamagedLine
    return entry


def _digest(log: dict[str, Any]) -> str:
    """32 hexadecimal digits over `log`, as it will be read back from its line."""
    text = json.dumps(json.loads(json.dumps(log)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _mend(path: Path) -> None:
    """Cuts off a half-written last line, left by a killed process."""
    text = path.read_bytes()
    if not text.startswith(_BEGINNING[: len(text)]):
        raise _damage_error(path, f"{path.name} is no journal of Optuna's")
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)


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

    A name begins with `-` where less is better: values are signed, and every direction is "maximize".
    """
    if study.metric_names != list(names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(list(names))


@contextmanager
def one_append(study: optuna.Study) -> Iterator[None]:
    """Writes all that is told to `study` meanwhile with one append to its journal.

    A kill leaves all of it or a beginning. Other kinds of storage write at once, as ever.
    """
    journal_storage = study._storage
    backend = getattr(journal_storage, "_backend", None)
    if not isinstance(journal_storage, JournalStorage) or not isinstance(backend, _Lines):
        yield
        return
    with get_lock_file(backend._lock):
        with journal_storage._thread_lock:
            journal_storage._sync_with_backend()  # reads what others wrote
        with backend.gathering(journal_storage._replay_result.log_number_read):
            yield


def close_study(study: optuna.Study) -> None:
    """Closes the connections of `study` to a server; a journal has none."""
    server = getattr(study._storage, "_backend", None)
    if isinstance(server, optuna.storages.RDBStorage):
        _disconnect(server)


def _disconnect(server: optuna.storages.RDBStorage) -> None:
    server.remove_session()
    server.engine.dispose()


def open_server_study(address: str, name: str) -> optuna.Study:
    """Opens the study `name` of the storage at `address`, which must exist. Raises as `storage`."""
    with _translate_errors(None, address):
        server = _server(address)
        try:
            return optuna.load_study(storage=server, study_name=name)
        except BaseException:
            _disconnect(server)
            raise


def read_study(directory: Path, name: str = NAME) -> optuna.Study | None:
    """Opens the study `name` in `directory` for reading; None when there is none.

    Raises as `storage`.
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
    """Deletes the study `name` of the storage at `address`, if it exists. Raises as `storage`."""
    with _translate_errors(None, address):
        server = _server(address)
        try:
            with suppress(KeyError):
                optuna.delete_study(storage=server, study_name=name)
        finally:
            _disconnect(server)


def _server(address: str) -> optuna.storages.RDBStorage:
    """The database storage at `address`, which reconnects after a dropped connection."""
    return optuna.storages.RDBStorage(address, engine_kwargs={"pool_pre_ping": True})


@contextmanager
def _translate_errors(directory: Path | None, address: str = "") -> Iterator[None]:
    """Raises errors of Optuna and the database as one sentence, without the secrets in `address`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    where = bare_address(address) if address else str(directory)
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
            f"The study at {where} cannot be opened ({_root_cause(error, address)}); "
            f"{_remedy(error, address)}."
        ) from None


def _remedy(error: Exception, address: str) -> str:
    """The advice for a study that cannot be opened."""
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
    """The first line of the root cause, without the secrets in `address`."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    named = "" if isinstance(root, DamagedJournal) else f"{type(root).__name__}: "
    return named + mask(first_line(root, None), address)


class StudyAttributes:
    """Named JSON values, stored as attributes of an Optuna study."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._seen: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The value stored under `name`, or None."""
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
        """All names, sorted."""
        return sorted(self._study.user_attrs)


class InMemoryAttributes:
    """Named JSON values in the memory of this process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The value stored under `name`, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Stores `value` under `name`."""
        self._values[name] = value

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._values)


def study_directory(out: Path) -> Path:
    """The state directory of the study whose compiled program is written to `out`."""
    return cache_home() / "studies" / f"{out.name[:60]}-{digest(str(out.resolve()))[:12]}"


def difference(before: str, after: str) -> str:
    """The removed (-) and added (+) lines, at most three, then the number of the others."""
    lines = [f"{line[0]} {line[2:]}" for line in ndiff(before.splitlines(), after.splitlines())]
    changed = [line for line in lines if line[0] in "+-" and line[2:].strip()]
    return "; ".join(changed[:3]) + (f"; and {len(changed) - 3} more" if len(changed) > 3 else "")


def find(path: str | Path) -> Path:
    """The study directory for `path`, which is as in `status`. Raises ArtefactError."""
    for directory in (Path(path), study_directory(Path(path))):
        if (directory / "recipe.toml").is_file() and not (directory / "program.json").exists():
            return directory
    shown = bare_address(str(path)) if secrets(str(path)) else path
    raise ArtefactError(
        f"No study is known at {shown}; name the --out directory of a compile on this machine, the recipe or "
        f"the name of a study of ragc.study, or a folder in {cache_home() / 'studies'}."
    )


def is_outside(directory: Path) -> bool:
    """Whether `directory`, links resolved, is outside the studies folder of this machine's cache."""
    return not directory.resolve().is_relative_to((cache_home() / "studies").resolve())


def study_in(directory: Path, spec: StudySpec, objectives: int) -> optuna.Study:
    """The study of `directory`, in its folder or on the server that `spec` names; created if it is missing.

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
