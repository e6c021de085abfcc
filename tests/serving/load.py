"""Load on `ragc serve`, and what its process holds. Needs /proc."""

from __future__ import annotations

import contextlib
import json
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


class Load:
    """Clients that ask one question after another, each on a connection of its own, until `end` is set."""

    def __init__(self, address: str, clients: int, answer: str) -> None:
        self.results: Counter[str] = Counter()
        self.end = threading.Event()
        self._url, self._answer = f"{address}/v1/chat/completions", answer
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
                question = f"What is thing number{number % 60}? {client} {number}"
                try:
                    reply = connection.post(self._url, json=body(question, stream=bool(number % 2)))
                    whole = self._answer in reply.text
                    self.results["answered" if whole else f"status {reply.status_code}"] += 1
                except httpx.HTTPError:
                    self.results["broken"] += 1


def body(question: str, *, stream: bool) -> dict[str, Any]:
    """A request."""
    return {"model": "recipe", "messages": [{"role": "user", "content": question}], "stream": stream}


def counted(address: str) -> int:
    """Answered questions in `/metrics`."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in lines
        if line.startswith("ragc_requests_total") and 'status="200"' in line
    )


@contextmanager
def serving(recipe: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `ragc serve` and its process, which SIGTERM ends with exit 0 unless it was killed."""
    command = [sys.executable, "-m", "ragc", "serve", str(recipe), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = json.loads("".join(process.stdout.readline() for _ in range(3)))["address"]
            for _ in range(600):
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.get(f"{address}/readyz").status_code == 200:
                        break
                time.sleep(0.1)
            yield address, process
            if process.poll() != -signal.SIGKILL:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()
