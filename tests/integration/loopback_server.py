"""A loopback OpenAI-compatible server: answers depend on the prompt alone, and replies can be held back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY_S = 0.02
_LOOK_S = 0.02


class Loopback:
    """What was asked and by whom: `request_keys` digests of requests in order, `flying` those not answered
    yet.

    Who asks is said by the key that is sent. While `holding` nothing is answered; a request whose asker went
    away meanwhile goes to `dropped`.
    """

    def __init__(self) -> None:
        self.port = 0
        self.request_keys: list[str] = []
        self.flying: set[tuple[str, str]] = set()
        self.dropped: list[tuple[str, str]] = []
        self.holding = False
        self.stop: Callable[[], object] = lambda: None
        self._talks: set[asyncio.Task[Any]] = set()

    def at_work(self, who: str) -> set[str]:
        """The digests of the requests of `who` that wait for an answer."""
        return {key for name, key in set(self.flying) if name == who}

    async def serve(self, ready: threading.Event) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.stop = lambda: loop.call_soon_threadsafe(ended.set)
        ready.set()
        await ended.wait()
        server.close()
        open_still = tuple(self._talks)
        for talk in open_still:  # whoever asks keeps its connection for the next question
            talk.cancel()
        await asyncio.gather(*open_still, return_exceptions=True)
        await asyncio.sleep(0)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk: Any = asyncio.current_task()
        self._talks.add(talk)
        try:
            await self._answers(reader, writer)
        finally:
            self._talks.discard(talk)
            writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                completion = await self._answer(lines[0], fields.get("authorization", ""), body, reader)
                text = json.dumps(completion).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    + f"content-length: {len(text)}\r\n\r\n".encode()
                    + text
                )
                await writer.drain()

    async def _answer(self, line: str, who: str, body: bytes, reader: asyncio.StreamReader) -> dict[str, Any]:
        if line.startswith("GET"):
            return {"object": "list", "data": [{"id": "echo", "object": "model", "max_model_len": 32768}]}
        who, key = who.removeprefix("Bearer "), hashlib.sha256(body).hexdigest()
        self.request_keys.append(key)
        self.flying.add((who, key))
        try:
            await asyncio.sleep(DELAY_S)
            while self.holding:
                if reader.at_eof() or reader.exception():
                    self.dropped.append((who, key))
                    raise ConnectionResetError
                await asyncio.sleep(_LOOK_S)
        finally:
            self.flying.discard((who, key))
        return _completion(key, json.loads(body)["messages"])


def _completion(key: str, messages: list[dict[str, str]]) -> dict[str, Any]:
    """A word of the prompt picked by the request's digest; the more is shown, the fewer words there are."""
    words = [word for word in messages[-1]["content"].split() if word.isidentifier()]
    number = int(key[:8], 16) % (3 if len(messages) > 2 else 40)
    answer = json.dumps({"answer": words[number % len(words)]})
    return {
        "id": key[:8],
        "object": "chat.completion",
        "model": "echo",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
    }


@contextmanager
def loopback() -> Iterator[Loopback]:
    """A server that runs until the block ends."""
    server, ready = Loopback(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(30)
    yield server
    server.stop()
    thread.join(30)
