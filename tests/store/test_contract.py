"""What every backend of the call store promises: on disk, on a Redis server, and in memory."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.store.call_store import CallStore
from tests import processes
from tests.optimizers.distributed import redis_server

NO_REDIS = (
    redis_server.MISSING
    if redis_server.PROGRAM is None
    else ""
    if find_spec("redis")
    else "redis-py is not installed (extra redis)"
)
DISK, MEMORY = "disk", "memory"
REDIS = pytest.param(
    "redis", marks=[pytest.mark.integration, pytest.mark.skipif(bool(NO_REDIS), reason=NO_REDIS)]
)
ALL, SHARED = [DISK, MEMORY, REDIS], [DISK, REDIS]
"""Every backend; those that outlive a process."""

TEXTS = (
    '""', "{}", '{"text": "a reply"}', json.dumps("Köln, 東京, 🙂, \u202e and \x00"), json.dumps("\ud800"),
    json.dumps("\u0000" * 50), '"' + "long " * 400_000 + '"', " ", "[1.0, 1e-300, -0.0]",
)  # fmt: skip
"""Texts of JSON as targets and judges store them, up to 2 MB."""

KEYS = ("0" * 64, "k", "key with spaces", "ключ", "a" * 500, "1")

PUTS = """
import sys
from pathlib import Path
from ragc.store.call_store import CallStore
address, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = CallStore.at(address, Path(address)) if "://" in address else CallStore(Path(address))
for number in range(first, last):
    store.put(f"key {number}", f'"reply {number}"' + " " * 2000)
    print(number, flush=True)
"""
"""Puts rows and prints the number of each as soon as it is stored."""


@dataclass(frozen=True)
class Place:
    """A store's place: `open` gives one more store over it, `address` is for processes."""

    open: Callable[[], CallStore]
    address: str
    folder: Path

    def damage(self, key: str, other: str) -> None:
        """Changes the row of `key` behind the store's back; with `other`, to the row of that key."""
        if "://" in self.address:
            import redis

            server: Any = redis.Redis.from_url(self.address)
            held = bytes(server.get(f"ragc:call:2:{other or key}"))
            server.set(f"ragc:call:2:{key}", held if other else held[:-2] + b"x" + held[-1:])
            server.close()
            return
        with closing(sqlite3.connect(self.folder / "cache.db")) as rows, rows:
            row = rows.execute("SELECT value, tag FROM Cache WHERE key = ?", (other or key,)).fetchone()
            value, tag = row if other else (row[0][:-2] + "x" + row[0][-1:], row[1])
            rows.execute("UPDATE Cache SET value = ?, tag = ? WHERE key = ?", (value, tag, key))


@pytest.fixture
def store_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    folder, opened = tmp_path / "store", list[CallStore]()

    def of(make: Callable[[], CallStore]) -> Callable[[], CallStore]:
        def go() -> CallStore:
            opened.append(make())
            return opened[-1]

        return go

    match request.param:
        case "disk":
            yield Place(of(lambda: CallStore(folder)), str(folder), folder)
        case "memory":
            held = CallStore(None)
            yield Place(lambda: held, "", folder)
        case _:
            with redis_server.serving(tmp_path) as address:
                yield Place(of(lambda: CallStore.at(address, folder)), address, folder)
                for store in opened:
                    store.close()
                opened.clear()
    for store in opened:
        store.close()


def started(store_place: Place, first: int, last: int) -> processes.Process:
    """A process that puts the rows `first` to `last`."""
    command = ["-c", PUTS, store_place.address, str(first), str(last)]
    with (store_place.folder.parent / f"out-{first}").open("wb") as out:
        return processes.start(
            command,
            cwd=store_place.folder.parent,
            environment=processes.environment_of(),
            stdout=out,
            stderr=subprocess.DEVNULL,
        )


def printed(store_place: Place, first: int) -> list[int]:
    """The rows that the process which began at `first` said were stored."""
    text = (store_place.folder.parent / f"out-{first}").read_text()
    return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("store_place", ALL, indirect=True)
def test_what_was_put_is_there_and_nothing_else(store_place: Place) -> None:
    store = store_place.open()
    assert store.get("k") is None
    for key in KEYS:
        for text in TEXTS:
            store.put(key, text)
            assert store.get(key) == text
    assert store.get("another") is None
    again = store_place.open()
    assert [again.get(key) for key in KEYS] == [TEXTS[-1]] * len(KEYS)
    store.check()


@pytest.mark.parametrize("store_place", SHARED, indirect=True)
@pytest.mark.parametrize("value", [b"bytes", {"a": 1}, 3, None])
def test_only_text_is_written(store_place: Place, value: object) -> None:
    store = store_place.open()
    with pytest.raises(TypeError, match="JSON text"):
        store.put("k", value)  # type: ignore[arg-type]
    assert store.get("k") is None


@pytest.mark.parametrize("store_place", ALL, indirect=True)
def test_equal_requests_at_once_are_one_call_and_later_ones_none(store_place: Place) -> None:
    store, calls = store_place.open(), list[str]()

    async def call(key: str) -> str:
        calls.append(key)
        await asyncio.sleep(0.01)
        return f'"{key}"'

    async def work() -> list[tuple[str, bool]]:
        keys = [f"k{n % 3}" for n in range(12)]
        return list(await asyncio.gather(*(store.get_or_call(key, partial(call, key)) for key in keys)))

    first, second = event_loop.run(work()), event_loop.run(work())
    assert sorted(calls) == ["k0", "k1", "k2"]
    assert [text for text, _ in first] == [f'"k{n % 3}"' for n in range(12)] == [text for text, _ in second]
    assert sum(not replayed for _, replayed in first) == 3
    assert all(replayed for _, replayed in second)


@pytest.mark.parametrize("store_place", SHARED, indirect=True)
def test_a_text_of_another_handle_is_replayed_and_one_that_does_not_fit_is_asked_again(
    store_place: Place,
) -> None:
    one, other = store_place.open(), store_place.open()

    async def say(text: str) -> str:
        return text

    async def work() -> list[tuple[str, bool]]:
        return [
            await one.get_or_call("k", lambda: say('"old"')),
            await other.get_or_call("k", lambda: say('"asked again"')),
            await store_place.open().get_or_call("k", lambda: say('"new"'), lambda text: text != '"old"'),
            await store_place.open().get_or_call("k", lambda: say('"asked again"')),
        ]

    assert event_loop.run(work()) == [('"old"', False), ('"old"', True), ('"new"', False), ('"new"', True)]


@pytest.mark.parametrize("store_place", ALL, indirect=True)
def test_failures_are_not_stored_and_a_cancelled_caller_loses_nothing(store_place: Place) -> None:
    store, tries = store_place.open(), list[int]()

    async def fail() -> str:
        tries.append(1)
        raise ValueError("no")

    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "1"

    async def work() -> None:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await store.get_or_call("failing", fail)
        waiting = asyncio.ensure_future(store.get_or_call("slow", slow))
        await asyncio.sleep(0)
        waiting.cancel()
        await store.settle()

    event_loop.run(work())
    assert (len(tries), store.get("failing"), store.flying) == (2, None, 0)
    assert store_place.open().get("slow") == "1"


@pytest.mark.parametrize("store_place", SHARED, indirect=True)
@pytest.mark.parametrize("other", ["", "another"])
def test_a_bad_row_counts_as_absent_and_is_written_again(store_place: Place, other: str) -> None:
    store = store_place.open()
    store.put("k", '"a reply of some length"')
    store.put("another", '"a reply of another request"')
    store_place.damage("k", other)
    again = store_place.open()
    assert again.get("k") is None
    assert again.get("another") == '"a reply of another request"'
    again.put("k", '"asked again"')
    assert store_place.open().get("k") == '"asked again"'


@pytest.mark.parametrize("store_place", SHARED, indirect=True)
def test_processes_that_write_at_once_lose_nothing(store_place: Place) -> None:
    store_place.open()
    ranges = [(0, 60), (30, 90), (60, 120)]  # half of the rows of each are those of another
    writers = [started(store_place, first, last) for first, last in ranges]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = store_place.open()
    assert [n for n in range(120) if store.get(f"key {n}") != f'"reply {n}"' + " " * 2000] == []


@pytest.mark.parametrize("store_place", SHARED, indirect=True)
def test_a_process_killed_in_the_middle_loses_no_row_that_it_stored(store_place: Place) -> None:
    store_place.open()
    for first in (0, 10_000, 20_000):
        writer = started(store_place, first, first + 10_000)
        end = time.monotonic() + 60
        while len(printed(store_place, first)) < 20 and time.monotonic() < end:
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
        stored, store = printed(store_place, first), store_place.open()
        assert len(stored) >= 20
        assert [n for n in stored if store.get(f"key {n}") != f'"reply {n}"' + " " * 2000] == []
        store.check()
        store.put("after", f'"{first}"')
        assert store_place.open().get("after") == f'"{first}"'
