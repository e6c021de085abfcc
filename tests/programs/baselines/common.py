"""CRAG, Self-RAG and FLARE on scripted targets: what their tests share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ragc.records import Hit, Passage
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ListSource, ScriptedTarget
from tests.support.requests import last_output


def script_replies(**replies: Any) -> Callable[[ChatRequest], Any]:
    """A script that gives each output its value; a function is given the request's last message."""

    def reply(request: ChatRequest) -> Any:
        assert request.schema is not None
        values = {}
        for name in request.schema["properties"]:
            value = replies.get(name, "because")
            values[name] = value(request.messages[-1].content) if callable(value) else value
        whole = values.get(last_output(request))
        return whole if isinstance(whole, Reply) else values

    return reply


def count_requests(target: ScriptedTarget) -> dict[str, int]:
    """How many requests there were by output."""
    names = [last_output(request) for request in target.requests]
    return {name: names.count(name) for name in dict.fromkeys(names)}


class Echo(ListSource):
    """A source whose passages are about the query, so that no two searches lead to the same request."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        return tuple(Hit(Passage(f"{query} {i}", "", f"text p{i} on {query}"), 1.0) for i in range(k))


def tokens(*pairs: tuple[str, float]) -> Reply:
    """A reply whose tokens are `pairs` of text and probability."""
    scored = tuple(TokenLogprob(text, math.log(p)) for text, p in pairs)
    return Reply("".join(text for text, _ in pairs), logprobs=scored)
