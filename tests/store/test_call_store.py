"""The call store: single flight, JSON only, safe keys."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from ragc.core import event_loop
from ragc.errors import StoreError
from ragc.store.call_store import CallStore


def test_a_poisoned_row_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "s")
    store.put("good", "1")
    store.close()
    trap = b"cbuiltins\nexec\n(S'raise SystemExit'\ntR."
    with sqlite3.connect(tmp_path / "s" / "cache.db") as rows:
        rows.execute("UPDATE Cache SET value = ?, mode = 4 WHERE key = 'good'", (sqlite3.Binary(trap),))
    rows.close()
    reopened = CallStore(tmp_path / "s")
    assert reopened.get("good") is None
    reopened.put("good", "2")
    assert reopened.get("good") == "2"


def test_replies_of_one_moment_are_kept_together_and_one_that_cannot_be_fails_alone(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "s")

    async def echo(text: str) -> str:
        return text

    async def work() -> list[object]:
        texts = [f"reply {n}" for n in range(20)]
        texts[7] = "half of a pair: \ud800"
        calls = [store.get_or_call(f"k{n}", partial(echo, text)) for n, text in enumerate(texts)]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    results = event_loop.run(work())
    assert [n for n, result in enumerate(results) if isinstance(result, Exception)] == [7]
    again = CallStore(tmp_path / "s")
    assert [n for n in range(20) if again.get(f"k{n}") != f"reply {n}"] == [7]


def test_a_full_disk_is_told_to_all_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CallStore(tmp_path / "s")

    def full(*args: object, **kwargs: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store._disk._rows, "set", full)  # type: ignore[union-attr]

    async def answer() -> str:
        return "a reply"

    async def work() -> list[object]:
        return list(
            await asyncio.gather(
                *(store.get_or_call(f"k{n}", answer) for n in range(5)), return_exceptions=True
            )
        )

    for error in event_loop.run(work()):
        with pytest.raises(StoreError, match=r"disk is full.*free space.*RAGC_HOME"):
            raise cast(Exception, error)


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened"):
        CallStore(tmp_path / "file" / "store")


def test_rows_may_pass_memory_by(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "s")
    event_loop.run(store.write("k", "1"))
    assert event_loop.run(store.read("k")) == "1"
    nowhere = CallStore(None)
    event_loop.run(nowhere.write("k", "1"))
    assert event_loop.run(nowhere.read("k")) is None
