"""`ragc serve` with the embedded model: streams, the answers of `ragc ask`, and its end under load."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.optimizers.colours import begun, written
from tests.serving.server import until

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")
pytestmark = pytest.mark.integration

QUESTION = "What colour is thing number7?"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    begun(written(folder))("colours")
    return folder / "colours"


@contextmanager
def serving(compiled: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `ragc serve`, once its model is open, and its process."""
    command = [sys.executable, "-m", "ragc", "serve", str(compiled), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = json.loads("".join(process.stdout.readline() for _ in range(3)))["address"]
        try:
            transport = httpx.HTTPTransport(retries=3)
            with httpx.Client(transport=transport, timeout=60) as client:
                for _ in range(600):
                    if client.get(f"{address}/readyz").status_code == 200:
                        break
                    threading.Event().wait(0.1)
                else:
                    pytest.fail("the model was not opened in a minute")
            yield address, process
        finally:
            if process.poll() is None:
                process.kill()


def body(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "colours", "messages": [{"role": "user", "content": question}], **more}


def test_text_streams_from_the_embedded_model_and_is_the_answer_of_ask(compiled: Path) -> None:
    with serving(compiled) as (address, process):
        url = f"{address}/v1/chat/completions"
        request = body(QUESTION, stream=True)
        with httpx.stream("POST", url, json=request, timeout=120) as reply:
            lines = [line for line in reply.iter_lines() if line.startswith("data: {")]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
        *parts, closing = chunks
        text = "".join(choice["delta"].get("content", "") for part in parts for choice in part["choices"])
        again = httpx.post(url, json=body(QUESTION), timeout=120).json()
        final = closing["ragc"].get("text", text)
        assert again["choices"][0]["message"]["content"] == final
        assert again["ragc"]["replayed"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    command = [sys.executable, "-m", "ragc", "ask", str(compiled), QUESTION, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["prediction"] == final


def test_sigterm_lets_a_question_in_flight_end(compiled: Path) -> None:
    with serving(compiled) as (address, process):
        replies: list[httpx.Response] = []
        url = f"{address}/v1/chat/completions"
        question = "What colour is thing number11?"
        asking = threading.Thread(
            target=lambda: replies.append(httpx.post(url, json=body(question), timeout=120))
        )
        asking.start()
        threading.Event().wait(0.15)
        process.send_signal(signal.SIGTERM)
        asking.join()
        assert process.wait(60) == 0
    assert replies[0].status_code == 200
    assert replies[0].json()["choices"][0]["message"]["content"]


def test_connections_that_are_dropped_half_way_leave_nothing_open(compiled: Path) -> None:
    with serving(compiled) as (address, process):
        host, port = address.removeprefix("http://").split(":")
        descriptors = Path(f"/proc/{process.pid}/fd")
        if not descriptors.is_dir():
            pytest.skip("this system has no /proc")
        httpx.get(f"{address}/healthz")
        before = len(list(descriptors.iterdir()))
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for number in range(200):
            text = json.dumps(body(f"What colour is thing number{number % 5}?", stream=bool(number % 2)))
            whole = f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(whole if number % 4 else whole[: len(whole) - 20])
        # At most 64 were in flight at once, the others were refused; all are noticed to have left.
        assert until(lambda: "ragc_in_flight 0.0" in httpx.get(f"{address}/metrics", timeout=60).text, 60)
        answer = httpx.post(f"{address}/v1/chat/completions", json=body(QUESTION), timeout=120)
        assert answer.status_code == 200
        assert until(lambda: len(list(descriptors.iterdir())) <= before + 5, 10)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert errors == ""
