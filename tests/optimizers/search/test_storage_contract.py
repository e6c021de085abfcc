"""What every Optuna storage that a study may have promises: a journal, SQLite, PostgreSQL, memory.

A compile has the journal in its folder or a server; a study of a user's own has any storage of Optuna's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
import pytest

from ragc.errors import StoreError
from ragc.optimizers.search.storage import (
    close_study,
    delete,
    name_objectives,
    open_server_study,
    storage,
)
from tests.support import postgres

NO_POSTGRES = (
    "PostgreSQL is not installed (Debian package postgresql)"
    if postgres.INITDB is None or postgres.POSTGRES is None
    else "psycopg is not installed"
    if find_spec("psycopg") is None
    else ""
)
POSTGRES = pytest.param(
    "postgres", marks=[pytest.mark.integration, pytest.mark.skipif(bool(NO_POSTGRES), reason=NO_POSTGRES)]
)
ALL = ["journal", "sqlite", "memory", POSTGRES]
"""Every storage."""


@dataclass(frozen=True)
class Place:
    """Where a study is: `open` opens it, with the number of its objectives, or creates it."""

    folder: Path
    address: str
    memory: optuna.storages.BaseStorage | None = None
    opened: list[optuna.Study] = field(default_factory=list)

    def open(self, objectives: int = 1) -> optuna.Study:
        if self.memory is None:
            self.opened.append(storage(self.folder, objectives, self.address, "a study"))
            return self.opened[-1]
        return optuna.create_study(
            storage=self.memory,
            study_name="a study",
            directions=[optuna.study.StudyDirection.MAXIMIZE] * objectives,
            load_if_exists=True,
        )


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, postgres.postgres() as address:
        patch.setenv("PGPASSWORD", postgres.PASSWORD)
        yield address


@pytest.fixture
def storage_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "study"
    folder.mkdir()
    match request.param:
        case "journal":
            one = Place(folder, "")
        case "sqlite":
            one = Place(folder, f"sqlite:///{tmp_path / 'study.db'}")
        case "memory":
            one = Place(folder, "", optuna.storages.InMemoryStorage())
        case _:
            one = Place(folder, request.getfixturevalue("server"))
    yield one
    for study in one.opened:
        close_study(study)
    if request.param == "postgres":
        delete(one.address, "a study")


def tell_trial(study: optuna.Study, value: float, **params: Any) -> int:
    trial = study.ask()
    for name, least in params.items():
        trial.suggest_float(name, least, least + 1)
    study.tell(trial, value)
    return trial.number


@pytest.mark.parametrize("storage_place", ALL, indirect=True)
def test_a_study_is_created_once_and_opened_again(storage_place: Place) -> None:
    first = storage_place.open(2)
    name_objectives(first, ["f1", "-tokens"])
    name_objectives(first, ["f1", "-tokens"])
    again = storage_place.open(2)
    assert [one.name for one in again.directions] == ["MAXIMIZE", "MAXIMIZE"]
    assert (again.study_name, again.metric_names, len(again.trials)) == ("a study", ["f1", "-tokens"], 0)


@pytest.mark.parametrize("storage_place", ["journal", "sqlite"], indirect=True)
def test_a_damaged_file_is_one_sentence(storage_place: Place, tmp_path: Path) -> None:
    tell_trial(storage_place.open(), 1.0)
    file = tmp_path / "study.db" if storage_place.address else storage_place.folder / "study.journal"
    file.write_bytes(b"not what it was " * 500)
    with pytest.raises(StoreError, match=r"^The study at .* cannot be opened \(.*\); .*\.$") as caught:
        storage_place.open()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("storage_place", [POSTGRES], indirect=True)
def test_a_study_of_a_server_is_deleted_and_opened_by_name(storage_place: Place) -> None:
    tell_trial(storage_place.open(), 1.0)
    study = open_server_study(storage_place.address, "a study")
    assert len(study.trials) == 1
    close_study(study)
    delete(storage_place.address, "a study")
    delete(storage_place.address, "a study")
    with pytest.raises(StoreError, match="cannot be opened"):
        open_server_study(storage_place.address, "a study")
    assert storage_place.open().trials == []


def test_a_server_that_is_gone_is_one_sentence_without_its_password(tmp_path: Path) -> None:
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    with pytest.raises(StoreError, match=r"cannot be opened .*RAGC_STORAGE") as caught:
        storage(tmp_path, 1, "postgresql+psycopg://me:hunter22@127.0.0.1:1/nowhere")
    assert "hunter22" not in str(caught.value)
