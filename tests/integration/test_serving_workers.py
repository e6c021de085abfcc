"""Workers of `ragc serve`: one dies under load and the others go on; half a minute of load leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from experiments.benchmarks.serving.loopback import MODEL, Loopback
from ragc.core.paths import cache_home
from ragc.store.call_store import CallStore
from tests.optimizers.colours import write_data
from tests.serving.server import until

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc"),
]

RECIPE = """
program = "vanilla"
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "{model}"
base_url = "{url}"
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A recipe whose model answers in 20 ms."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RAGC_SERVE_KEYS", raising=False)
    write_data(tmp_path)
    with Loopback(latency_s=0.02, answer=lambda body: json.dumps({"answer": "red"})) as model:
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(model=MODEL, url=model.url), "utf-8")
        yield path


@contextmanager
def serving(recipe: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `ragc serve` and its process, which SIGTERM ends with exit 0 unless it was killed."""
    command = [sys.executable, "-m", "ragc", "serve", str(recipe), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = json.loads("".join(process.stdout.readline() for _ in range(3)))["address"]
            assert until(lambda: ready(address), 60)
            yield address, process
            if process.poll() != -signal.SIGKILL:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()


def ready(address: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{address}/readyz").status_code == 200
    return False


def children(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of the workers."""
    tasks = Path(f"/proc/{process.pid}/task")
    return [int(one) for task in tasks.iterdir() for one in (task / "children").read_text("utf-8").split()]


class Load:
    """Clients that ask one question after another, each on a connection of its own, until `end` is set."""

    def __init__(self, address: str, clients: int) -> None:
        self.results: Counter[str] = Counter()
        self.end = threading.Event()
        self._url = f"{address}/v1/chat/completions"
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.end.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self, client: int) -> None:
        number = 0
        with httpx.Client(timeout=60) as connection:
            while not self.end.is_set():
                number += 1
                question = f"What colour is thing number{number % 60}? {client} {number}"
                body: dict[str, Any] = {
                    "model": "recipe",
                    "messages": [{"role": "user", "content": question}],
                    "stream": bool(number % 2),
                }
                try:
                    reply = connection.post(self._url, json=body)
                    whole = "red" in reply.text
                    self.results["answered" if whole else f"status {reply.status_code}"] += 1
                except httpx.HTTPError:
                    self.results["broken"] += 1


def counted(address: str) -> int:
    """Answered questions in `/metrics`."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in lines
        if line.startswith("ragc_requests_total") and 'status="200"' in line
    )


def test_a_worker_that_is_killed_disturbs_nobody_else(recipe: Path) -> None:
    clients = 8
    with serving(recipe, "--workers", "2", "--keep") as (address, process):
        assert until(lambda: len(children(process)) == 2)
        with Load(address, clients) as load:
            assert until(lambda: load.results["answered"] > 40, 60)
            victim = children(process)[0]
            os.kill(victim, signal.SIGKILL)
            before = load.results["answered"]
            assert until(lambda: load.results["answered"] > before + 80, 60)
            assert until(lambda: victim not in children(process) and len(children(process)) == 2, 30)
        # At most what each client had in flight is lost, and nothing is answered wrongly.
        assert load.results["broken"] <= clients
        assert load.results.keys() <= {"answered", "broken"}
        # The counters of the dead worker stay in the sum; what it had not answered yet is not in it.
        assert load.results["answered"] <= counted(address) <= load.results["answered"] + clients
        assert "ragc_in_flight 0.0" in httpx.get(f"{address}/metrics").text
    store = CallStore(cache_home() / "store")
    audit = store.audit()
    store.close()
    assert audit.damaged == 0
    assert audit.rows > 80


def test_workers_end_with_their_parent(recipe: Path) -> None:
    with serving(recipe, "--workers", "2") as (_, process):
        assert until(lambda: len(children(process)) == 2)
        workers = children(process)
        process.kill()
        process.wait(20)
        assert until(lambda: not any(alive(one) for one in workers), 30)


def alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text("utf-8")
    return False


def memory(process: int) -> int:
    """Bytes of resident memory."""
    return int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_half_a_minute_of_load_leaves_nothing(recipe: Path) -> None:
    with serving(recipe) as (address, process):
        descriptors = Path(f"/proc/{process.pid}/fd")
        httpx.get(f"{address}/healthz")
        before = len(list(descriptors.iterdir()))
        clients = 16
        with Load(address, clients) as load:
            time.sleep(15)  # caches and connections fill
            halfway = memory(process.pid)
            time.sleep(15)
            grown = memory(process.pid) / halfway
        assert load.results.keys() == {"answered"}
        assert counted(address) == load.results["answered"]
        assert grown < 1.1
        # Connections to the model stay open, one for each question that was in flight at most.
        assert until(lambda: len(list(descriptors.iterdir())) <= before + clients + 4)
