"""A loopback server that speaks OpenAI's chat API and misbehaves as its script says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ragc.testing import SchemaReplies

MODEL = "gpt-4o-mini"


@dataclass(frozen=True)
class Asked:
    """One completion that was asked for: how many were before it, its last message and its whole body."""

    number: int
    text: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What is sent back, and how that ends.

    `reset` breaks the connection off after `sent` bytes of the body, `stall` falls silent there; with `sent`
    below 0 not even the head is sent. `endless` is sent again and again behind that, until nobody listens.
    With `raw`, the body is the whole of what is sent, head and all, and the connection is closed after it.
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    ending: Literal["whole", "reset", "stall"] = "whole"
    sent: int = -1
    raw: bool = False
    endless: bytes = b""


Script = Callable[[Asked], Answer]


def build_answer(text: str) -> Answer:
    """A completion whose text is `text`."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "cmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23},
    }
    return Answer(json.dumps(body).encode())


def fitting(request: Asked, **fields: Any) -> Answer:
    """A completion that fits the schema asked for, with `fields` as they are given."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    return build_answer(json.dumps(SchemaReplies().example(schema) | fields))


def failing(status: int, message: str = "out of order", **headers: str) -> Answer:
    """An error in OpenAI's words; `retry_after` becomes the header of that name."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    body = {"error": {"message": message, "type": "t", "code": None}}
    return Answer(json.dumps(body).encode(), status, headers=named)


class FaultServer:
    """Answers by `script` until closed; `open` again listens on the same port.

    `prompts` has the last message of every completion asked for, `bodies` all of it, `answered` the messages
    of the whole answers with status 200. The first `together` completions are answered when all of them
    have been asked for.
    """

    def __init__(self, script: Script, together: int = 0) -> None:
        self.script, self.together = script, together
        self.prompts: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.port = self.poured = 0
        self._gathered = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self.context = 32768
        self._talks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def times(self) -> Counter[str]:
        """How often each message was asked."""
        return Counter(self.prompts)

    def open(self) -> None:
        """Listen: on any port at first, then on that one."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)

    def close(self) -> None:
        """Stop listening and break off every connection, as a server that is killed does."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)

    def end(self) -> None:
        """Close for good."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        talks = list(self._talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._talks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether another may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(fields.get("content-length", "0")))
        if not lines[0].startswith("POST"):
            card = {"id": MODEL, "object": "model", "max_model_len": self.context}
            listed = {"object": "list", "data": [card]}
            return await self._send(writer, Answer(json.dumps(listed).encode()))
        body = json.loads(content)
        request = Asked(len(self.prompts), str(body["messages"][-1]["content"]), body)
        self.prompts.append(request.text)
        self.bodies.append(body)
        if len(self.prompts) >= self.together:
            self._gathered.set()
        await self._gathered.wait()
        answer = self.script(request)
        goes_on = await self._send(writer, answer)
        if answer.ending == "whole" and answer.status == 200:
            self.answered.append(request.text)
        return goes_on

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        more = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = (
            f"HTTP/1.1 {answer.status} X\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n{more}\r\n"
        ).encode()
        if answer.raw:
            writer.write(answer.body)
            await self._endlessly(writer, answer.endless)
            return False
        if answer.ending == "whole":
            writer.write(head + answer.body)
        elif answer.sent >= 0:
            writer.write(head + answer.body[: answer.sent])
        await writer.drain()
        if answer.ending == "stall":
            await asyncio.Event().wait()
        if answer.ending == "reset":
            # Let what was sent arrive first: a reset may overtake it.
            await asyncio.sleep(0.01)
        return answer.ending == "whole"

    async def _endlessly(self, writer: asyncio.StreamWriter, part: bytes) -> None:
        """Send `part` until the other side has gone; `poured` counts the bytes."""
        await writer.drain()
        while part:
            writer.write(part)
            await writer.drain()
            self.poured += len(part)


@contextmanager
def serving(script: Script, together: int = 0) -> Iterator[FaultServer]:
    """A server that listens until the block ends."""
    server = FaultServer(script, together)
    server.open()
    try:
        yield server
    finally:
        server.end()
