"""`ragc doctor` says what is on this machine and whether targets answer, and changes nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragc.cli import main
from ragc.core import event_loop
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.storage import corpus as corpora
from ragc.doctor import TargetCheck, examine_targets
from ragc.recipe import parse
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.testing import SchemaReplies, ScriptedTarget
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


def test_what_is_stored_is_listed_and_nothing_is_changed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home)
    code, checks = doctor(capsys)
    assert code == 0
    assert snapshot(home) == before
    assert checks["store"][0]["ok"]
    kept = checks["kept"][0]["found"]
    assert all(f"{name} " in kept for name in ("store", "studies", "indexes"))
    assert kept.endswith("; any of these may be deleted while no ragc runs")
    assert "uses" not in kept, "nothing makes the record of used questions again"
    assert checks["uses"][0]["found"].startswith("1 use of test questions, 2 sets of train and dev, in ")


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
    assert "delete that folder" in checks["store"][0]["found"]


RECIPE = """program = "no_retrieval"
[data]
dataset = "pydocs"
[targets.main]
kind = "vllm"
model = "scripted"
base_url = "http://127.0.0.1:9/v1"
"""


def examined(target: Target, monkeypatch: pytest.MonkeyPatch) -> TargetCheck:
    monkeypatch.setattr("ragc.targets.build", lambda spec: target)
    (check,) = examine_targets(parse(RECIPE))
    return check


def test_a_target_that_keeps_to_a_schema_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ScriptedTarget(SchemaReplies(), capabilities=("schema", "seed"))
    check = examined(target, monkeypatch)
    assert (check.ok, check.capabilities) == (True, ("schema", "seed"))
    assert check.found == f"{target.name}: ready; schema, seed"
    assert len(target.requests) == 1
    assert target.requests[0].schema is not None


def test_a_target_that_does_not_is_told_what_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    check = examined(ScriptedTarget(lambda request: "blue", capabilities=("schema",)), monkeypatch)
    assert not check.ok
    assert 'add lacks = ["schema"] to its options' in check.found
    honest = examined(ScriptedTarget(lambda request: "blue", capabilities=()), monkeypatch)
    assert honest.ok
    assert honest.found.endswith("ready; no capabilities")


def test_a_server_that_is_not_there_is_one_line() -> None:
    (check,) = examine_targets(parse(RECIPE))
    assert not check.ok
    assert "start the server or correct base_url" in check.found
    assert "\n" not in check.found
