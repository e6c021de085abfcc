"""`ragc doctor` reads what is kept on this machine, says what is damaged, and changes nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragc.cli import main
from ragc.core import event_loop
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.storage import corpus as corpora
from ragc.corpora.storage import index_cache
from ragc.optimizers.search.storage import study_directory
from ragc.store.call_store import CallStore
from ragc.targets.embedded.prefix_states import PrefixStates, state_key
from tests.optimizers.colours import begun, written


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with replies, a finished study and indexes, all whole."""
    cache_folder = tmp_path / "home"
    monkeypatch.setenv("RAGC_HOME", str(cache_folder))
    folder = written(tmp_path)
    store = CallStore(cache_folder / "store")
    begun(folder)("out", store=store, sets=("search.demos=0", "search.trials=2"))
    store.close()
    monkeypatch.setattr(corpora, "STORED_FROM", 1)
    event_loop.run(Bm25Source(corpora.read(folder / "corpus.jsonl")).search("red", 3))
    return cache_folder


def doctor(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    capsys.readouterr()
    code = main.main(["doctor", "--json", *options])
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in json.loads(capsys.readouterr().out):
        checks.setdefault(check["id"], []).append(check)
    return code, checks


def snapshot(home: Path) -> dict[Path, bytes]:
    """What stands in the files, apart from locks and how SQLite keeps its own."""
    files = [path for path in home.rglob("*") if path.is_file() and path.suffix != ".lock"]
    contents = {path: path.read_bytes() for path in files if not path.name.startswith("cache.db")}
    with closing(sqlite3.connect(home / "store" / "cache.db")) as rows:
        table = rows.execute("SELECT * FROM Cache ORDER BY rowid").fetchall()
    return {**contents, home / "store" / "cache.db": repr(table).encode()}


def test_what_is_whole_is_counted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = doctor(capsys)
    assert code == 0
    assert all(check["ok"] for name in ("store", "indexes", "studies") for check in checks[name])
    with closing(sqlite3.connect(home / "store" / "cache.db")) as rows:
        (count,) = rows.execute("SELECT count(*) FROM Cache").fetchone()
    assert f"{count:,} replies" in checks["store"][0]["found"]
    assert checks["indexes"][0]["found"].startswith("2 whole")
    assert checks["studies"][0]["found"].startswith("1 whole")


def test_damage_is_named_with_what_to_do_and_nothing_is_changed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(home / "store" / "cache.db")) as rows, rows:
        rows.execute("UPDATE Cache SET value = replace(value, 'e', 'E') WHERE rowid IN (1, 5, 9)")
    (postings,) = home.rglob("data.csc.index.npy")
    content = bytearray(postings.read_bytes())
    content[-1] ^= 1
    postings.write_bytes(content)
    directory = study_directory(home.parent / "out")
    charges = directory / "charges.jsonl"
    charges.write_bytes(charges.read_bytes().replace(b'"tokens": ', b'"tokens": 1', 1))
    before = snapshot(home)
    code, checks = doctor(capsys)
    assert code == 0  # all of it mends itself, or concerns one study
    assert snapshot(home) == before
    (store,), (index,), (study,) = checks["store"], checks["index"], checks["study"]
    assert (store["ok"], store["needed"]) == (False, False)
    assert store["found"].startswith("3 of ")
    assert store["found"].endswith("stored replies are damaged; they will be asked again: nothing to do")
    assert "data.csc.index.npy has another content" in index["found"]
    assert "built again at its next use: nothing to do" in index["found"]
    assert "damaged in line 1" in study["found"]
    assert "--resume" in study["found"]
    code, checks = doctor(capsys, "--quick")
    assert code == 0
    assert checks["store"][0]["ok"]
    assert not {"index", "indexes", "study", "studies"} & checks.keys()


def test_rot_in_a_large_index_must_be_deleted(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_cache, "SMALL", 0)
    (postings,) = home.rglob("data.csc.index.npy")
    content = bytearray(postings.read_bytes())
    content[-1] ^= 1
    postings.write_bytes(content)
    _, checks = doctor(capsys)
    assert checks["index"][0]["found"].endswith(f"delete {postings.parent}")


@pytest.mark.parametrize("harm", ["a page of zeros", "no database", "half of it"])
def test_a_store_that_cannot_be_used_fails(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    file = home / "store" / "cache.db"
    with closing(sqlite3.connect(file)) as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    other = home.parent / "other"
    (other / "store").mkdir(parents=True)
    (other / "store" / "digests").touch()
    damaged = {
        "a page of zeros": whole[:20480] + bytes(4096) + whole[24576:],
        "no database": b"no database" * 1000,
        "half of it": whole[: len(whole) // 2],
    }
    (other / "store" / "cache.db").write_bytes(damaged[harm])
    monkeypatch.setenv("RAGC_HOME", str(other))
    code, checks = doctor(capsys)
    assert code == 1
    assert f"{other / 'store'} is damaged" in checks["store"][0]["found"]
    assert "move the folder away" in checks["store"][0]["found"]


@pytest.mark.parametrize(
    "name", ["study.journal", "recipe.toml", "study.json", "best/program.json", "trials.json"]
)
def test_each_file_of_a_study_is_looked_at(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    directory = study_directory(home.parent / "out")
    content = bytearray((directory / name).read_bytes())
    content[len(content) // 2] ^= 128
    (directory / name).write_bytes(content)
    _, checks = doctor(capsys)
    assert checks["study"][0]["found"].startswith(directory.name)
    assert "\n" not in checks["study"][0]["found"]


def test_weights_that_are_damaged_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ragc.targets.embedded.weights import SMOLLM2

    file = home / "weights" / SMOLLM2.name
    file.parent.mkdir()
    file.write_bytes(b"GGUF of another content")
    _, checks = doctor(capsys)
    assert checks["weights"][0]["found"] == f"{file.name} is damaged; delete {file} to have it fetched again"
    assert not checks["weights"][0]["needed"]


def test_states_of_prompt_prefixes_are_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states, state = PrefixStates(), home.parent / "a.state"
    assert "prefixes" not in doctor(capsys)[1]
    for number in range(2):
        state.write_bytes(b"state %d" % number)
        states.save(state_key("weights", [], [number]), state)
        state.unlink()
    _, checks = doctor(capsys)
    assert checks["prefixes"][0]["ok"]
    assert checks["prefixes"][0]["found"].startswith("2 whole")
    states.paths()[0].write_bytes(b"damaged")
    code, checks = doctor(capsys)
    assert code == 0
    assert checks["prefixes"][0]["found"].startswith("1 of 2 are damaged")
    assert "prefixes" not in doctor(capsys, "--quick")[1]
