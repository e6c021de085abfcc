"""What the call store promises, on disk and in memory."""

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
from pathlib import Path

import pytest

from tests import processes
from tests.support.kinds import CallStore, event_loop

ALL, SHARED = ["disk", "memory"], ["disk"]
"""Every place of a store; those that outlive a process."""

TEXTS = (
    '""', "{}", '{"text": "a reply"}', json.dumps("Köln, 東京, 🙂, \u202e and \x00"), json.dumps("\ud800"),
    json.dumps("\u0000" * 50), '"' + "long " * 400_000 + '"', " ", "[1.0, 1e-300, -0.0]",
)  # fmt: skip
"""Texts of JSON as targets and judges store them, up to 2 MB."""

KEYS = ("0" * 64, "k", "key with spaces", "ключ", "a" * 500, "1")

PUTS = """
import sys
from pathlib import Path
from tests.support.kinds import CallStore
folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = CallStore(Path(folder))
for number in range(first, last):
    store.put(f"key {number}", f'"reply {number}"' + " " * 2000)
    print(number, flush=True)
"""
"""Puts rows and prints the number of each as soon as it is stored."""


@dataclass(frozen=True)
class Place:
    """A store's place: `open` gives one more store over it."""

    open: Callable[[], CallStore]
    folder: Path

    def damage(self, key: str, other: str) -> None:
        """Changes the row of `key` behind the store's back; with `other`, to the row of that key."""
        with closing(sqlite3.connect(self.folder / "cache.db")) as rows, rows:
            (row,) = rows.execute("SELECT value FROM Cache WHERE key = ?", (other or key,)).fetchone()
            value = row if other else row[:-2] + b"x" + row[-1:]
            rows.execute("UPDATE Cache SET value = ? WHERE key = ?", (value, key))


@pytest.fixture
def store_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    folder, opened = tmp_path / "store", list[CallStore]()

    def open_on_disk() -> CallStore:
        opened.append(CallStore(folder))
        return opened[-1]

    if request.param == "disk":
        yield Place(open_on_disk, folder)
    else:
        in_memory = CallStore(None)
        yield Place(lambda: in_memory, folder)
    for store in opened:
        store.close()


def started(store_place: Place, first: int, last: int) -> processes.Process:
    """A process that puts the rows `first` to `last`."""
    command = ["-c", PUTS, str(store_place.folder), str(first), str(last)]
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

    async def work() -> None:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await store.get_or_call("failing", fail)

        async def slow() -> str:
            return await asyncio.sleep(0.02, "1")

        waiting = asyncio.ensure_future(store.get_or_call("slow", slow))
        await asyncio.sleep(0)
        waiting.cancel()
        await store.settle()

    event_loop.run(work())
    assert (len(tries), store.get("failing")) == (2, None)
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
