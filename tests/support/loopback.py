"""A chat server on this machine that answers after a fixed time, always the same to the same request.

    PYTHONPATH=src python -m tests.support.loopback [--port N] [--latency-ms 50]

It speaks as much of OpenAI's API as clients need (`/v1/models`, `/v1/chat/completions`), answers out of
`tests.support.loopback_world`, and keeps what it was asked: `GET /log` says when each
request came and when its reply went, `POST /reset` forgets it. Its address is the first line that it prints.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
from aiohttp import web

from tests.support.loopback_log import Call, Log
from tests.support.loopback_world import reply

MODEL = "loopback"
ROOT = Path(__file__).resolve().parents[2]

TABLES = f"""
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "{MODEL}"
base_url = "%s"
"""
"""The tables of a recipe for the files of `loopback_world.write_data` and a server, whose address is `%s`."""

Answer = Callable[[Mapping[str, Any]], str]


class ThreadedServer:
    """A server of `routes` in a thread of this process, while the block `with` runs; 0 takes a free port."""

    def __init__(self, routes: Sequence[web.RouteDef], port: int = 0) -> None:
        self.port = port
        self._routes = routes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the server did not start within 30 s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=2**26)
        app.add_routes(self._routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]


CARD = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 32768}]}
"""The models that a server has."""


class Loopback(ThreadedServer):
    """A server in a thread of this process: `with Loopback() as server: server.url`.

    `latency_s` is how long every completion takes, `answer` makes the text of the reply from the body. An
    exception of `answer` becomes a 503.
    """

    def __init__(self, *, latency_s: float = 0.05, answer: Answer = reply, port: int = 0) -> None:
        self.latency_s, self.answer = latency_s, answer
        self.log = Log()
        self._flying = 0
        routes = [
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._complete),
            web.get("/log", self._send_log),
            web.post("/reset", self._forget),
        ]
        super().__init__(routes, port)

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def answer_count(self) -> int:
        """How many requests were answered so far."""
        return sum(call.went is not None for call in self.log.calls)

    def reset(self) -> None:
        """Forget what was asked."""
        self.log = Log()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(CARD)

    async def _send_log(self, request: web.Request) -> web.Response:
        return web.json_response(self.log.to_json())

    async def _forget(self, request: web.Request) -> web.Response:
        self.reset()
        return web.json_response({})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        try:
            content = await request.read()
        except ConnectionError:  # its sender was killed while sending
            return web.Response(status=400)
        call = Call(hashlib.sha256(content).hexdigest()[:16], time.time())
        log = self.log
        log.calls.append(call)
        self._flying += 1
        log.peak = max(log.peak, self._flying)
        try:
            body = orjson.loads(content)
            await asyncio.sleep(self.latency_s)
            reply = completion(body, self.answer(body), call.key)
        except Exception as error:
            return web.json_response({"error": {"message": str(error)}}, status=503)
        finally:
            self._flying -= 1
        response = web.Response(body=orjson.dumps(reply), content_type="application/json")
        with suppress(ConnectionError):  # its reader was killed
            await response.prepare(request)
            await response.write_eof()
            call.went = time.time()
        return response


def completion(body: Mapping[str, Any], text: str, mark: str) -> dict[str, Any]:
    """The chat completion that says `text`, with about four characters a token."""
    prompt_tokens = sum(len(str(message["content"])) for message in body["messages"]) // 4
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": text, "logprob": -0.1, "top_logprobs": []}]}
    completion_tokens = len(text) // 4 + 1
    return {
        "id": mark,
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


@dataclass(frozen=True)
class ServerProcess:
    """A server in a process of its own, so that it takes no time from the one that is measured."""

    url: str

    def log(self) -> Log:
        """What it was asked so far."""
        return Log.of(self._request("log"))

    def reset(self) -> None:
        """Let it forget what it was asked."""
        self._request("reset", b"")

    def _request(self, path: str, data: bytes | None = None) -> Any:
        address = f"{self.url.removesuffix('/v1')}/{path}"
        with urllib.request.urlopen(address, data, timeout=60) as response:
            return json.loads(response.read())


@contextmanager
def run_server(latency_ms: float = 50) -> Iterator[ServerProcess]:
    """A server in a process of its own while the block runs."""
    command = [
        sys.executable,
        "-m",
        "tests.support.loopback",
        "--latency-ms",
        str(latency_ms),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ServerProcess(process.stdout.readline().strip())
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description="A chat server with a fixed time to answer.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=50)
    args = parser.parse_args()
    with Loopback(latency_s=args.latency_ms / 1000, port=args.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
