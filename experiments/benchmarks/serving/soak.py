"""Minutes of load on `ragc serve`, then connections dropped half-way: what failed, and what stays.

    python -m experiments.benchmarks.serving.soak [--seconds 300] [--clients 64]

The model answers in 20 ms. Every second answer is streamed. Printed are answers and failures, memory every
half minute beside that after the first minute, and after the load, with 200 further connections that were
dropped while they sent or waited, open files and questions in flight. Needs /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from experiments.benchmarks.serving.added_latency import RECIPE, write
from tests.support.loopback import MODEL, Loopback

ANSWER = "A number."
DROPPED = 200


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


def drop(address: str, connections: int = DROPPED) -> None:
    """Opens connections and leaves them: half of them while they send, half while they wait."""
    host, port = address.removeprefix("http://").split(":")
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for number in range(connections):
        text = json.dumps(body(f"What is thing {number}? dropped", stream=bool(number % 4 // 2)))
        whole = f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(whole if number % 2 else whole[:-20])


def memory(process: int) -> int:
    """Bytes of resident memory."""
    return int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(process: int) -> int:
    """Open files and connections."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def counted(address: str) -> int:
    """Answered questions in `/metrics`."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in lines
        if line.startswith("ragc_requests_total") and 'status="200"' in line
    )


def in_flight(address: str) -> float:
    """Questions in flight, of `/metrics`."""
    lines = httpx.get(f"{address}/metrics", timeout=60).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("ragc_in_flight"))


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


def settled(address: str, process: int, most: int) -> tuple[float, int]:
    """Questions in flight and open files, once there are none and at most `most`; else after 30 seconds."""
    for _ in range(300):
        left = in_flight(address), open_files(process)
        if not left[0] and left[1] <= most:
            break
        time.sleep(0.1)
    return left


def main() -> None:
    """Puts load on a server, and prints what is left of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=64)
    args = parser.parse_args()
    reply = json.dumps({"answer": ANSWER})
    with tempfile.TemporaryDirectory() as folder, Loopback(latency_s=0.02, answer=lambda _: reply) as model:
        os.environ["RAGC_HOME"] = f"{folder}/home"
        recipe = write(Path(folder))
        target = f'kind = "vllm"\nmodel = "{MODEL}"\nbase_url = "{model.url}"'
        recipe.write_text(RECIPE.replace('kind = "embedded"', target), "utf-8")
        with serving(recipe, "--in-flight", str(args.clients)) as (address, process):
            with Load(address, args.clients, ANSWER) as load:
                begun, after_a_minute = time.monotonic(), 0
                while (passed := time.monotonic() - begun) < args.seconds:
                    time.sleep(min(30.0, args.seconds - passed))
                    now = memory(process.pid)
                    if time.monotonic() - begun >= 60 and not after_a_minute:
                        after_a_minute = now
                    share = f", {now / after_a_minute:.3f} of that after a minute" if after_a_minute else ""
                    passed = time.monotonic() - begun
                    print(f"{passed:5.0f} s  {now / 1e6:.1f} MB{share}; {dict(load.results)}", flush=True)
            time.sleep(1)  # connections that the clients closed
            files = open_files(process.pid)
            print(f"answers in /metrics {counted(address)}, by the clients {load.results['answered']}")
            drop(address)
            left, now = settled(address, process.pid, files)
            print(f"dropped {DROPPED}: {left:.0f} in flight, open files {files} before and {now} after")
            print(f"memory {memory(process.pid) / 1e6:.1f} MB, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
