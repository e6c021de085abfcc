"""A provider on this machine that charges for tokens, fails in every way, and counts what it is owed.

It speaks OpenAI's chat API. Its tokenizer is its own: from one token in five bytes to one a byte, drawn by
the request, so that an estimate by characters is wrong both ways. What it computed it charges, whether the
reply arrives or not: the caller may be gone, the connection break off, or a gateway say 500. What it turns
away (429) it does not charge.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from ragc.targets.base import Usage
from ragc.targets.prices import Price
from tests.support.loopback import CARD, MODEL, ThreadedServer
from tests.support.loopback_world import reply

LATENCY_S = 0.003

FAULTS = ("refused", "lost", "broken", "failed", "unreadable", "empty")
"""What may come in the place of a reply.

    refused      429, nothing computed
    lost         the connection breaks off after the reply was computed, and charged
    broken       the connection breaks off before anything was computed
    failed       500, and the reply was charged
    unreadable   200 with a body that is no completion, and was charged
    empty        a completion with no text that any signature could read, which is repaired
"""


@dataclass
class Account:
    """What one study is owed for: requests that were computed, their tokens and dollars, and faults.

    `arrival` is called with the number of each request before it is answered. Every reply begins with
    `reasoning`, in which `{key}` is the key that came with the request; a refusal names that key too. One
    that is `down` breaks every request off.
    """

    price: Price
    faults: float
    reasoning: str = ""
    arrival: Callable[[int], None] = lambda number: None
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    arrived: int = 0
    down: bool = False
    answers: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)

    def charge(self, usage: Usage) -> None:
        """Counts one reply that was computed."""
        self.calls += 1
        self.tokens += usage.prompt + usage.completion
        self.usd += self.price.usd(usage)


class PricedProvider(ThreadedServer):
    """The server, in a thread of this process: `with PricedProvider() as provider: provider.url("a")`.

    Each account has an address of its own.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        at = "/{name}/v1"
        routes = [
            web.get(f"{at}/models", self._models),
            web.post(f"{at}/chat/completions", self._complete),
        ]
        super().__init__(routes)

    def url(self, name: str) -> str:
        """The base URL of the account `name`."""
        return f"http://127.0.0.1:{self.port}/{name}/v1"

    def wait_until_left(self) -> None:
        """Waits until no client is connected: what a killed one had sent is then read, and counted."""
        for _ in range(2000):
            if self._runner.server is None or not self._runner.server.connections:
                return
            time.sleep(0.005)
        raise TimeoutError("a client of the provider is still connected")

    async def _models(self, request: web.Request) -> web.Response:
        if self.accounts[request.match_info["name"]].down:
            return _break_off(request)
        return web.json_response(CARD)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        account = self.accounts[request.match_info["name"]]
        try:
            content = await request.read()
        except ConnectionError:  # its sender was killed while sending
            return web.Response(status=400)
        account.arrived += 1
        account.arrival(account.arrived)
        key = hashlib.sha256(content).hexdigest()
        account.tries[key] += 1
        what = "broken" if account.down else fault(key, account.tries[key], account.faults)
        account.answers[what or "answered"] += 1
        sender = request.headers.get("authorization", "").removeprefix("Bearer ")
        if what == "refused":
            error = {"error": {"message": f"too many requests of {sender}", "type": "rate_limit"}}
            return web.json_response(error, status=429, headers={"retry-after": "0"})
        if what == "broken":
            return _break_off(request)
        body = orjson.loads(content)
        text = account.reasoning.format(key=sender) + ("?" if what == "empty" else reply(body))
        usage = count(body, text, key)
        account.charge(usage)  # from here on it is owed, whatever becomes of the caller
        await asyncio.sleep(LATENCY_S)
        if what == "lost":
            return _break_off(request)
        if what == "failed":
            return web.json_response({"error": {"message": "upstream gave up"}}, status=500)
        if what == "unreadable":
            return web.Response(
                body=b'{"object": "chat.completion", "choices": 7}', content_type="application/json"
            )
        with suppress(ConnectionError):
            return web.Response(
                body=orjson.dumps(completion(text, usage, key)), content_type="application/json"
            )
        return web.Response(status=400)


def _break_off(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def luck(*of: object) -> float:
    """A number in 0..1 that only depends on `of`."""
    text = json.dumps(of, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


def fault(key: str, number: int, share: float) -> str:
    """What comes in the place of the reply to the try `number` of a request; "" for the reply itself."""
    if luck("fault", key, number) >= share:
        return ""
    return FAULTS[int(luck("which", key, number) * len(FAULTS))]


def count(body: Mapping[str, Any], text: str, key: str) -> Usage:
    """The tokens of a request by this provider's own tokenizer, and those that it had in its cache."""
    size = sum(len(str(message["content"]).encode()) for message in body["messages"])
    each = 0.2 + 0.8 * luck("tokenizer", key) ** 2
    prompt = int(size * each) + 12 * len(body["messages"])
    limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or 1)
    written = min(limit, max(1, int(limit * luck("length", key) ** 4) + len(text) // 5))
    return Usage(prompt, written, int(prompt * luck("cached", key)) if luck("hit", key) < 0.3 else 0)


def completion(text: str, usage: Usage, key: str) -> dict[str, Any]:
    """The chat completion that says `text`."""
    return {
        "id": key[:16],
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }
