"""kill -9 of the real command line at random moments, against a server whose answers depend on the prompt."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment_of
from tests.support.recipes import recipe_toml, vllm

pytestmark = pytest.mark.integration

RECIPE = recipe_toml(
    seed=5,
    concurrency=8,
    search={
        "knobs": ["top_k", "query_pos", "temperature"],
        "demos": 3,
        "trials": 8,
        "batch": 4,
        "objectives": ["f1"],
    },
    data={"dataset": "pydocs", "train": 40, "dev": 40, "test": 40},
    targets={"main": vllm("http://127.0.0.1:%d/v1", "echo")},
)


class Server(ThreadingHTTPServer):
    """Answers after 20 ms with words picked from the prompt by its digest; counts what it answered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.request_keys: list[str] = []
        self.flying = self.peak = 0
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "echo", "object": "model", "max_model_len": 32768}]})

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length:  # its sender was killed while sending
            return
        key = hashlib.sha256(body).hexdigest()
        with self.server.lock:
            self.server.request_keys.append(key)
            self.server.flying += 1
            self.server.peak = max(self.server.peak, self.server.flying)
        time.sleep(0.02)
        messages = json.loads(body)["messages"]
        words = [w for w in messages[-1]["content"].split() if w.isidentifier()]
        number = int(key[:8], 16) % (3 if len(messages) > 2 else 40)
        answer = json.dumps({"answer": words[number % len(words)]})
        with self.server.lock:
            self.server.flying -= 1
        message = {"role": "assistant", "content": answer}
        self._send(
            {
                "id": key[:8],
                "object": "chat.completion",
                "model": "echo",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
            }
        )

    def _send(self, value: Any) -> None:
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # its reader was killed
            self.wfile.write(text)


@pytest.fixture
def server() -> Iterator[Server]:
    http_server = Server()
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    yield http_server
    http_server.shutdown()
    http_server.server_close()


def command(folder: Path, *more: str) -> list[str]:
    out = ["--out", str(folder / "out"), *more]
    return [sys.executable, "-m", "ragc", "compile", str(folder / "recipe.toml"), *out]


def test_killed_three_times_it_ends_as_if_it_had_not_been(server: Server, tmp_path: Path) -> None:
    results: dict[str, dict[str, Any]] = {}
    for name in ("whole", "cut"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "recipe.toml").write_text(RECIPE % server.server_port)
        before = len(server.request_keys)
        started = time.monotonic()
        if name == "cut":
            rng = random.Random(11)
            for _ in range(3):
                job = subprocess.Popen(
                    command(folder, "--resume"), env=environment_of(folder), stderr=subprocess.DEVNULL
                )
                goal = len(server.request_keys) + rng.randrange(
                    10, max(11, len(results["whole"]["sent"]) // 4)
                )
                while len(server.request_keys) < goal and job.poll() is None:
                    time.sleep(0.005)
                job.kill()
                job.wait()
        process = subprocess.run(
            command(folder, "--resume", "--json"),
            env=environment_of(folder),
            capture_output=True,
            text=True,
            check=True,
        )
        sent = server.request_keys[before:]
        results[name] = {
            "sent": sent,
            "json": json.loads(process.stdout),
            "seconds": time.monotonic() - started,
        }
    whole, cut = results["whole"], results["cut"]
    assert len(whole["sent"]) == len(set(whole["sent"]))
    assert set(cut["sent"]) == set(whole["sent"])
    assert len(cut["sent"]) <= len(whole["sent"]) + 3 * 8
    for path in sorted((tmp_path / "whole" / "out").rglob("*")):
        if path.is_file() and path.name != "run.json":
            twin = tmp_path / "cut" / "out" / path.relative_to(tmp_path / "whole" / "out")
            assert path.read_bytes() == twin.read_bytes(), path.name
