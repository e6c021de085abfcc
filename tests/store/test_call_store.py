"""The call store: single flight, JSON only, safe keys."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from ragc.core import event_loop
from ragc.errors import StoreError
from ragc.store.call_store import CallStore


def test_equal_requests_at_the_same_time_make_one_call(tmp_path: Path) -> None:
    store, calls = CallStore(tmp_path / "s"), []

    async def work() -> list[tuple[str, bool]]:
        async def call() -> str:
            calls.append(1)
            await asyncio.sleep(0.01)
            return '"reply"'

        return list(await asyncio.gather(*(store.get_or_call("k", call) for _ in range(8))))

    results = event_loop.run(work())
    assert len(calls) == 1
    assert [text for text, _ in results] == ['"reply"'] * 8
    assert sorted(replayed for _, replayed in results) == [False] + [True] * 7


def test_a_reply_survives_the_process_and_is_replayed(tmp_path: Path) -> None:
    first = CallStore(tmp_path / "s")
    first.put("k", "{}")
    first.close()
    assert CallStore(tmp_path / "s").get("k") == "{}"


def test_failures_are_not_stored(tmp_path: Path) -> None:
    store, seen = CallStore(tmp_path / "s"), []

    async def fail() -> str:
        seen.append(1)
        raise ValueError("no")

    async def work() -> None:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await store.get_or_call("k", fail)

    event_loop.run(work())
    assert len(seen) == 2
    assert store.get("k") is None


def test_a_cancelled_caller_does_not_lose_the_reply(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "s")

    async def work() -> None:
        async def call() -> str:
            await asyncio.sleep(0.02)
            return "1"

        waiting = asyncio.ensure_future(store.get_or_call("k", call))
        await asyncio.sleep(0)
        waiting.cancel()
        await store.settle()

    event_loop.run(work())
    assert store.get("k") == "1"


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


@pytest.mark.parametrize("value", [b"bytes", {"a": 1}, 3])
def test_only_text_is_stored(tmp_path: Path, value: object) -> None:
    with pytest.raises(TypeError, match="JSON text"):
        CallStore(tmp_path / "s").put("k", value)  # type: ignore[arg-type]


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CallStore(tmp_path / "s")

    def full(*args: object, **kwargs: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store._backend._rows, "set", full)  # type: ignore[union-attr]
    with pytest.raises(StoreError, match=r"disk is full.*free space.*RAGC_HOME"):
        store.put("k", "1")


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

    monkeypatch.setattr(store._backend._rows, "set", full)  # type: ignore[union-attr]

    async def answer() -> str:
        return "a reply"

    async def work() -> list[object]:
        return list(
            await asyncio.gather(
                *(store.get_or_call(f"k{n}", answer) for n in range(5)), return_exceptions=True
            )
        )

    assert [type(result) for result in event_loop.run(work())] == [StoreError] * 5


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
