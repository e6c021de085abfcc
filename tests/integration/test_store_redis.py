"""The call store on a real Redis server: shared, one call for all workers, clear when the server is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dspy
import pytest

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import StoreError, UsageError
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.store.call_store import CallStore
from ragc.store.redis import RedisBackend
from ragc.testing import ScriptedTarget
from tests.paths import ROOT

redis = pytest.importorskip("redis", reason="redis-py is not installed (extra redis)")
PROGRAM = shutil.which("redis-server")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="redis-server is not on PATH (Debian package redis-server)"),
]

PASSWORD = "pass word/5"
WORKER = """
import asyncio, sys
from pathlib import Path
from ragc.core import event_loop as loop
from ragc.store.call_store import CallStore
from ragc.store.redis import RedisBackend

async def work():
    async def call():
        print("calling", flush=True)
        await asyncio.sleep(3600)
    await CallStore(None, backend=RedisBackend(sys.argv[1], lock_s=1.0)).get_or_call("k", call)

loop.run(work())
"""


@dataclass
class Server:
    """A server that may be stopped; `address` has its password."""

    port: int
    job: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return f"redis://:pass%20word%2F5@127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        self.job.terminate()
        self.job.wait(timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    port = free_port()
    lines = ["bind 127.0.0.1", f"port {port}", f'dir "{tmp_path}"', 'save ""', f'requirepass "{PASSWORD}"']
    job = subprocess.Popen([str(PROGRAM), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert job.stdin is not None
    job.stdin.write("\n".join(lines).encode())
    job.stdin.close()
    redis_server = Server(port, job)
    client = redis.Redis(port=port, password=PASSWORD)
    for _ in range(400):
        with contextlib.suppress(redis.ConnectionError):
            client.ping()
            break
        time.sleep(0.05)
    client.flushall()
    client.close()
    yield redis_server
    if job.poll() is None:
        redis_server.stop()


@pytest.fixture
def stores(server: Server) -> Iterator[list[CallStore]]:
    """Two workers' stores on one server."""
    call_stores = [CallStore.at(server.address, Path("unused")) for _ in range(2)]
    yield call_stores
    for store in call_stores:
        store.close()


@pytest.mark.parametrize("text", ["{}", '"é «x» \U0001f600"', '"half \ud800"', ""])
def test_what_one_worker_keeps_another_finds(stores: list[CallStore], text: str) -> None:
    one, other = stores
    one.put("k", text)
    assert other.get("k") == text
    assert event_loop.run(other.read("k")) == text
    assert other.get("another") is None


def test_a_typed_call_of_one_worker_is_replayed_by_another(stores: list[CallStore]) -> None:
    target = ScriptedTarget([{"answer": "Paris"}])
    costs = []
    for store in stores:
        call = RagPredict(dspy.Signature("question -> answer"), Runtime({"main": target}, store=store))
        with counting(Counters()) as cost:
            assert call(question="Where?").answer == "Paris"
        costs.append((cost.sent, cost.replayed, cost.memo))
    assert costs == [(1, 0, 0), (0, 1, 1)]


def test_workers_that_ask_the_same_at_once_send_it_once(stores: list[CallStore]) -> None:
    sent: list[str] = []

    async def call() -> str:
        sent.append("k")
        await asyncio.sleep(0.2)
        return '"reply"'

    async def work() -> list[tuple[str, bool]]:
        return list(await asyncio.gather(*(store.get_or_call("k", call) for store in stores * 3)))

    results = event_loop.run(work())
    assert len(sent) == 1
    assert [text for text, _ in results] == ['"reply"'] * 6
    assert sorted(replayed for _, replayed in results) == [False] + [True] * 5


def test_a_call_that_outlasts_its_lock_keeps_it(server: Server) -> None:
    stores = [CallStore(None, backend=RedisBackend(server.address, lock_s=0.4)) for _ in range(2)]
    sent: list[str] = []

    async def call() -> str:
        sent.append("k")
        await asyncio.sleep(1.5)
        return "1"

    async def work() -> None:
        await asyncio.gather(*(store.get_or_call("k", call) for store in stores))

    event_loop.run(work())
    for store in stores:
        store.close()
    assert len(sent) == 1


def test_a_call_that_fails_is_free_for_others(stores: list[CallStore]) -> None:
    async def fail() -> str:
        raise ValueError("no")

    async def call() -> str:
        return "2"

    async def work() -> tuple[str, bool]:
        with pytest.raises(ValueError, match="no"):
            await stores[0].get_or_call("k", fail)
        return await stores[1].get_or_call("k", call)

    assert event_loop.run(work()) == ("2", False)


def test_a_worker_that_died_blocks_nobody(server: Server) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", WORKER, server.address],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == b"calling\n"
    job.kill()
    job.wait()
    job.stdout.close()
    store = CallStore.at(server.address, Path("unused"))

    async def call() -> str:
        return "3"

    assert event_loop.run(store.get_or_call("k", call)) == ("3", False)
    store.close()


def test_what_is_not_text_counts_as_absent_and_nothing_else_is_touched(
    server: Server, stores: list[CallStore]
) -> None:
    client = redis.Redis(port=server.port, password=PASSWORD)
    client.set("ragc:call:2:k", b"\x80\x04K\x01.")
    assert stores[0].get("k") is None
    stores[0].put("k", "1")
    assert client.keys() == [b"ragc:call:2:k"]
    client.close()


def test_a_damaged_row_is_asked_again_and_counted(server: Server, stores: list[CallStore]) -> None:
    stores[0].put("k", '"Paris"')
    stores[0].put("other", '"Rome"')
    client = redis.Redis(port=server.port, password=PASSWORD)
    row = client.get("ragc:call:2:k")
    client.set("ragc:call:2:k", row.replace(b"Paris", b"Baris"))
    assert stores[1].get("k") is None
    audit = stores[1].audit()
    assert (audit.rows, audit.damaged, audit.broken) == (2, 1, "")
    client.set("ragc:call:2:k", client.get("ragc:call:2:other"))
    assert stores[1].get("k") is None
    client.close()


def test_a_server_that_is_gone_is_one_clear_error_without_the_password(
    server: Server, stores: list[CallStore]
) -> None:
    async def call() -> str:
        return "1"

    server.stop()
    for attempt in (
        lambda: stores[0].get("k"),
        lambda: stores[0].put("k", "1"),
        lambda: event_loop.run(stores[1].get_or_call("k", call)),
        lambda: CallStore.at(server.address, Path("unused")),
    ):
        with pytest.raises(StoreError, match=rf"redis://127\.0\.0\.1:{server.port}/0 cannot be") as caught:
            attempt()
        message = str(caught.value)
        assert "start the server" in message
        assert PASSWORD not in message
        assert "%20" not in message
        assert "\n" not in message


def test_a_wrong_password_is_refused_and_not_repeated(server: Server) -> None:
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        CallStore.at(f"redis://:wrong-secret@127.0.0.1:{server.port}/0", Path("unused"))
    assert "wrong-secret" not in str(caught.value)


def test_rows_without_the_workers_secret_are_neither_read_nor_replaced(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = RedisBackend(server.address)
    plain.put("k", "plain")
    monkeypatch.setenv("RAGC_STORE_KEY", "one secret of all workers")
    signed, again = RedisBackend(server.address), RedisBackend(server.address)
    assert signed.get("k") is None
    signed.put("k", "signed")
    assert (signed.get("k"), again.get("k"), plain.get("k")) == ("signed", "signed", "plain")
    client = redis.Redis(port=server.port, password=PASSWORD)
    names = {bytes(name).decode() for name in client.keys("*")}
    assert names == {"ragc:call:2:k", "ragc:call:2h:k"}
    client.set("ragc:call:2h:k", client.get("ragc:call:2:k"))  # a digest that anybody can compute
    assert signed.get("k") is None
    assert signed.audit(lambda n: None).damaged == 1
    monkeypatch.setenv("RAGC_STORE_KEY", "another secret of workers")
    assert RedisBackend(server.address).get("k") is None
    monkeypatch.setenv("RAGC_STORE_KEY", "short")
    with pytest.raises(UsageError, match="at least 16 characters, found 5"):
        RedisBackend(server.address)
    for backend in (plain, signed, again):
        backend.close()
