"""A server on this machine that speaks OpenAI's chat API or serves pages, well or badly, as a test states."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ragc.testing import SchemaReplies

MODEL = "gpt-4o-mini"


@dataclass(frozen=True)
class Asked:
    """A completion that was asked for: how many came before it, its last message, body, path and headers."""

    number: int
    text: str
    body: dict[str, Any]
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What is sent back, and how that ends.

    `reset` breaks the connection off after `sent` bytes of the body, `stall` falls silent there; with `sent`
    below 0 not even the head is sent. With `raw`, the body is the whole of what is sent, head and all, and
    the connection is closed after it.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    ending: Literal["whole", "reset", "stall"] = "whole"
    sent: int = -1
    raw: bool = False


Script = Callable[[Asked], Answer | Awaitable[Answer]]


class Visit(NamedTuple):
    """A request for a page: its path and headers, whose names are in lower case."""

    path: str
    headers: Mapping[str, str]


Page = Answer | Callable[[Visit], Answer]


def completion(message: Mapping[str, Any], finish: str = "stop", **usage: Any) -> Answer:
    """A completion with the fields of `message`; `usage` overrides its counts."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return answer_of(choice, **usage)


def answer_of(choice: Mapping[str, Any], **usage: Any) -> Answer:
    """A completion with one `choice`."""
    counts = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23, **usage}
    head = {"id": "cmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return Answer(json.dumps({**head, "choices": [choice], "usage": counts}).encode())


def build_answer(text: str) -> Answer:
    """A completion whose text is `text`."""
    return completion({"content": text})


def fitting(request: Asked, **fields: Any) -> Answer:
    """A completion that fits the schema asked for, with `fields` as they are given."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    return build_answer(json.dumps(SchemaReplies().example(schema) | fields))


def streaming(*choices: Mapping[str, Any], **usage: Any) -> Answer:
    """A completion in parts, one for each of `choices`, and its usage."""
    counts = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23, **usage}
    head = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    chunks = [{**head, "choices": [{"index": 0, **choice}]} for choice in choices]
    lines = [json.dumps(chunk) for chunk in [*chunks, {**head, "choices": [], "usage": counts}]]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return Answer(body.encode(), content_type="text/event-stream")


def failing(status: int, message: str = "out of order", **headers: str) -> Answer:
    """An error in OpenAI's words; `retry_after` becomes the header of that name."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    body = {"error": {"message": message, "type": "t", "code": None}}
    return Answer(json.dumps(body).encode(), status, headers=named)


def in_order(*answers: Answer) -> Script:
    """A script of `answers`, the last one for ever."""
    return lambda request: answers[min(request.number, len(answers) - 1)]


def models(*cards: str | Mapping[str, Any]) -> Answer:
    """The list of models that a server has: their cards, or only their names."""
    data = [card if isinstance(card, Mapping) else {"id": card, "object": "model"} for card in cards]
    return Answer(json.dumps({"object": "list", "data": data}).encode())


async def word_of_prompt(request: Asked) -> Answer:
    """After a moment, a word of the prompt picked by the request; the more is shown, the fewer there are."""
    await asyncio.sleep(0.02)
    words = [word for word in request.text.split() if word.isidentifier()]
    key = hashlib.sha256(json.dumps(request.body).encode()).hexdigest()
    number = int(key[:8], 16) % (3 if len(request.body["messages"]) > 2 else 40)
    return build_answer(json.dumps({"answer": words[number % len(words)]}))


Way = Literal["reasoning_content", "reasoning", "tagged", "untagged", "parts"]
WAYS: tuple[Way, ...] = ("reasoning_content", "reasoning", "tagged", "untagged", "parts")
"""The ways in which servers send what a model thinks."""

SECRET = "zebra"
"""A word that stands in every thought, and in nothing else."""

THINKING_LOGPROB, ANSWER_LOGPROB = -5.0, -0.01


def thoughts_of(tokens: int) -> str:
    """Thoughts of `tokens` words, drafts of a reply among them."""
    line = f'The {SECRET} asks for {{"answer": "{SECRET}"}} and passage [1] says "{SECRET}".'.split()
    return " ".join([SECRET, *(line[at % len(line)] for at in range(tokens))][:tokens])


@dataclass(frozen=True)
class Thinker:
    """A script: completes what is asked as a model that thinks for `tokens` words in `way`; 0 for none.

    `answer` says the text that follows the thoughts. With `limit` the reply is cut at the limit of the
    request, thoughts counted. Thoughts have the log-probability `THINKING_LOGPROB` a token.
    """

    answer: Callable[[Asked], str]
    way: Way = "reasoning_content"
    tokens: int = 20
    limit: bool = False

    def __call__(self, request: Asked) -> Answer:
        """The completion."""
        thoughts, answer = _words(thoughts_of(self.tokens)), _words(self.answer(request))
        most = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 10**9
        cut = self.limit and len(thoughts) + len(answer) > most
        if cut:
            thoughts, answer = thoughts[:most], answer[: max(0, most - len(thoughts))]
        start = ["<think>"] if thoughts and self.way == "tagged" else []
        end = ["</think>", "\n\n"] if thoughts and answer and self.way in ("tagged", "untagged") else []
        drawn = [(token, THINKING_LOGPROB) for token in (*start, *thoughts, *end)]
        drawn += [(token, ANSWER_LOGPROB) for token in answer]
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if cut else "stop"}
        if request.body.get("logprobs"):
            scored = [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in drawn]
            choice["logprobs"] = {"content": scored}
        message = self._message("".join(thoughts), "".join(answer))
        tokens = len(thoughts) + len(answer)
        return answer_of({**choice, "message": message}, completion_tokens=tokens, total_tokens=20 + tokens)

    def _message(self, thoughts: str, answer: str) -> dict[str, Any]:
        content: Any = answer or None
        apart: dict[str, str] = {}
        if thoughts and self.way in ("reasoning_content", "reasoning"):
            apart = {self.way: thoughts}
        elif thoughts and self.way == "parts":
            content = [
                {"type": "thinking", "thinking": thoughts},
                {"type": "text", "text": answer[:5]},
                {"type": "text", "text": answer[5:]},
            ]
        elif thoughts:
            end = f"</think>\n\n{answer}" if answer else ""
            content = f"{'<think>' * (self.way == 'tagged')}{thoughts}{end}"
        return {"role": "assistant", "content": content, **apart}


def _words(text: str) -> list[str]:
    """`text` in tokens: words with the blanks before them."""
    return re.findall(r"\s*\S+|\s+\Z", text)


class ScriptedServer:
    """Answers completions by `script` and other requests by `pages`; `open` again listens on the same port.

    `pages` holds answers by path, that of any other path under "". `requests` are the completions asked for,
    `answered` the messages of the whole answers with status 200, `visits` all requests without messages.
    The first `together` completions are answered when all of them have been asked for.
    """

    def __init__(self, script: Script, together: int = 0) -> None:
        self.script, self.together = script, together
        self.requests: list[Asked] = []
        self.answered: list[str] = []
        self.visits: list[Visit] = []
        self.pages: dict[str, Page] = {"": Answer(b"{}", 404)}
        self.context = 32768
        self.port = 0
        self._gathered = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def base(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"{self.base}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last message of every completion asked for."""
        return [request.text for request in self.requests]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The body of every completion asked for."""
        return [request.body for request in self.requests]

    @property
    def times(self) -> Counter[str]:
        """How often each message was asked."""
        return Counter(self.prompts)

    @property
    def paths(self) -> list[str]:
        """The paths of the other requests."""
        return [visit.path for visit in self.visits]

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
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        if b'"messages"' not in content:
            self.visits.append(Visit(path, headers))
            return await self._send(writer, self._page(self.visits[-1]), bodiless=method == "HEAD")
        body = json.loads(content)
        request = Asked(len(self.requests), str(body["messages"][-1]["content"]), body, path, headers)
        self.requests.append(request)
        if len(self.requests) >= self.together:
            self._gathered.set()
        await self._gathered.wait()
        answer = self.script(request)
        if inspect.isawaitable(answer):
            answer = await answer
        goes_on = await self._send(writer, answer)
        if answer.ending == "whole" and answer.status == 200:
            self.answered.append(request.text)
        return goes_on

    def _page(self, visit: Visit) -> Answer:
        if visit.path == "/v1/models" and visit.path not in self.pages:
            return models({"id": MODEL, "object": "model", "max_model_len": self.context})
        page = self.pages.get(visit.path, self.pages[""])
        return page if isinstance(page, Answer) else page(visit)

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer, *, bodiless: bool = False) -> bool:
        if answer.raw:
            writer.write(answer.body)
            writer.close()
            await writer.wait_closed()
            return False
        typed = (("Content-Type", answer.content_type),) if answer.content_type else ()
        headers = (*typed, ("Content-Length", len(answer.body)), *answer.headers)
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers), "", ""]
        head, body = "\r\n".join(lines).encode("latin-1"), b"" if bodiless else answer.body
        if answer.ending == "whole":
            writer.write(head + body)
        elif answer.sent >= 0:
            writer.write(head + body[: answer.sent])
        await writer.drain()
        if answer.ending == "stall":
            await asyncio.Event().wait()
        if answer.ending == "reset":
            # Let what was sent arrive first: a reset may overtake it.
            await asyncio.sleep(0.01)
        return answer.ending == "whole"


def no_completion(request: Asked) -> Answer:
    """The script of a server that only has pages."""
    return failing(404, "no completions here")


@contextmanager
def serving(script: Script = no_completion, together: int = 0) -> Iterator[ScriptedServer]:
    """A server that listens until the block ends."""
    server = ScriptedServer(script, together)
    server.open()
    try:
        yield server
    finally:
        server.end()
