"""The call store: single flight, JSON only, safe keys."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import diskcache
import pytest

from ragc.core import event_loop
from ragc.errors import StoreError
from ragc.store.calls import CallStore


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


def test_a_reply_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
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

    monkeypatch.setattr(diskcache.Cache, "set", full)

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
    with pytest.raises(StoreError, match="cannot be read or written"):
        CallStore(tmp_path / "file" / "store")


def test_rows_may_pass_memory_by(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "s")
    event_loop.run(store.write("k", "1"))
    assert event_loop.run(store.read("k")) == "1"
    nowhere = CallStore(None)
    event_loop.run(nowhere.write("k", "1"))
    assert event_loop.run(nowhere.read("k")) is None


def test_threads_share_a_call_and_lose_no_row(tmp_path: Path) -> None:
    store, calls = CallStore(tmp_path / "s"), list[str]()

    async def slow(key: str) -> str:
        calls.append(key)
        time.sleep(0.02)  # noqa: ASYNC251 - a call in a thread blocks
        return key

    def ask(n: int) -> tuple[str, bool]:
        return event_loop.step(store.get_or_call(f"k{n % 4}", partial(slow, f"k{n % 4}")))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert sorted(calls) == ["k0", "k1", "k2", "k3"]
    assert sum(cached for _, cached in answers) == 4
    store.close()
    assert [CallStore(tmp_path / "s").get(f"k{n}") for n in range(4)] == sorted(calls)


def foreign(folder: Path, text: str) -> Path:
    """A file in the place of the store's database: of another program, or no database."""
    folder.mkdir()
    file = folder / "cache.db"
    if not text:
        with closing(sqlite3.connect(file)) as rows, rows:
            rows.execute("CREATE TABLE Cache (id TEXT, reply TEXT)")
    else:
        file.write_text(text)
    return file


def test_a_store_of_another_version_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    CallStore(tmp_path / "s").put("k", "1")
    with closing(sqlite3.connect(tmp_path / "s" / "cache.db")) as rows, rows:
        rows.execute("UPDATE Cache SET value = CAST('0' AS BLOB) WHERE key = 'version'")
    with pytest.raises(StoreError, match=r"not of this version .*; delete that folder, and what it held"):
        CallStore(tmp_path / "s")
    with closing(sqlite3.connect(tmp_path / "s" / "cache.db")) as rows, rows:
        assert rows.execute("SELECT count(*) FROM Cache").fetchone() == (2,)
        rows.execute("DELETE FROM Cache WHERE key = 'version'")
    with pytest.raises(StoreError, match="not of this version"):
        CallStore(tmp_path / "s")


@pytest.mark.parametrize("text", ["", "no database at all " * 500])
def test_a_store_of_another_program_is_named_with_how_to_delete_it(tmp_path: Path, text: str) -> None:
    file = foreign(tmp_path / "s", text)
    with pytest.raises(StoreError, match=r"^The call store at \S+ .*; delete that folder, .*\.$") as raised:
        CallStore(tmp_path / "s").get("k")
    assert "\n" not in str(raised.value)
    assert file.stat().st_size > 4000
    shutil.rmtree(tmp_path / "s")
    CallStore(tmp_path / "s").put("k", "1")


def test_a_disk_hit_is_read_once_for_all_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CallStore(tmp_path / "s").put("k", "1")
    store, reads = CallStore(tmp_path / "s"), list[str]()

    async def slow(key: str) -> str:
        reads.append(key)
        await asyncio.sleep(0.01)
        return "1"

    monkeypatch.setattr(store, "read", slow)

    async def work() -> list[tuple[str, bool]]:
        return list(await asyncio.gather(*(store.get_or_call("k", partial(slow, "sent")) for _ in range(3))))

    assert event_loop.run(work()) == [("1", True)] * 3
    assert reads == ["k"]


def test_a_call_store_shares_a_call_on_a_loop_that_is_the_callers(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "calls")
    sent = list[str]()

    async def answer() -> str:
        sent.append("k")
        await asyncio.sleep(0.01)
        return "reply"

    async def together() -> list[tuple[str, bool]]:
        return await asyncio.gather(*(store.get_or_call("k", answer) for _ in range(3)))

    assert asyncio.run(together()) == [("reply", False), ("reply", True), ("reply", True)]
    assert sent == ["k"]
