"""A stored reply that was damaged is asked again, never believed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragc.core.digest import canonical, digest
from ragc.errors import StoreError
from ragc.store.calls import CallStore
from tests.examples import THOROUGH

SEED = 20_261_122
FLIPS = 80 if THOROUGH else 30
REPLIES = {
    digest(f"request {n}"): canonical(
        {"text": f"Answer {n}: " + "Zürich, Köln. " * (n % 90), "usage": [n, 7]}
    )
    for n in range(80)
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that holds REPLIES, closed."""
    folder = tmp_path_factory.mktemp("store") / "s"
    store = CallStore(folder)
    for key, text in REPLIES.items():
        store.put(key, text)
    store.close()
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the store."""
    return shutil.copytree(whole, tmp_path / "copy")


@pytest.mark.parametrize(("column", "kind"), [("value", "BLOB"), ("key", "TEXT")])
def test_a_flipped_bit_in_a_row_is_never_believed(column: str, kind: str, folder: Path) -> None:
    pick = random.Random(SEED)
    select = f"SELECT CAST({column} AS BLOB) FROM Cache WHERE key = ?"
    change = f"UPDATE Cache SET {column} = CAST(? AS {kind}) WHERE key = CAST(? AS TEXT)"
    with closing(sqlite3.connect(folder / "cache.db", isolation_level=None)) as rows:
        for key, text in pick.sample(sorted(REPLIES.items()), FLIPS):
            bad = bytearray(rows.execute(select, (key,)).fetchone()[0])
            bad[pick.randrange(len(bad))] ^= 1 << pick.randrange(8)
            rows.execute(change, (bytes(bad), key))
            store = CallStore(folder)
            lost_keys = [name for name in REPLIES if store.get(name) != REPLIES[name]]
            assert [store.get(name) for name in lost_keys] == [None]
            store.put(key, text)
            store.close()
            assert CallStore(folder).get(key) == text


def test_a_row_that_names_a_file_never_has_it_deleted(folder: Path, tmp_path: Path) -> None:
    thesis, key = tmp_path / "thesis.txt", next(iter(REPLIES))
    thesis.write_text("mine")
    with closing(sqlite3.connect(folder / "cache.db")) as rows, rows:
        rows.execute("UPDATE Cache SET filename = ?, mode = 3 WHERE key = ?", (str(thesis), key))
    store = CallStore(folder)
    assert store.get(key) is None
    store.put(key, REPLIES[key])
    assert store.get(key) == REPLIES[key]
    assert thesis.read_text() == "mine"


def test_the_check_of_a_store_names_a_broken_database_and_changes_nothing(folder: Path) -> None:
    CallStore(folder).check()
    before = (folder / "cache.db").read_bytes()
    store = CallStore(folder)
    (folder / "cache.db").write_bytes(before[:4096] + bytes(4096) + before[8192:])
    broken = (folder / "cache.db").read_bytes()
    with pytest.raises(StoreError, match=r"is damaged .* delete that folder"):
        store.check()
    assert (folder / "cache.db").read_bytes() == broken
