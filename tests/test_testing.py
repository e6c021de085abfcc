"""The fakes that other tests stand on."""

from __future__ import annotations

import asyncio

import pytest

from ragc.targets.base import ChatRequest, Message
from ragc.testing import ScriptedTarget

ASK = ChatRequest((Message("user", "two words"),))


def test_a_script_that_runs_out_is_a_failure_that_shows_the_prompt() -> None:
    target = ScriptedTarget(["one"])
    assert asyncio.run(target.complete(ASK)).text == "one"
    with pytest.raises(AssertionError, match=r"LM call 2 has no scripted reply: two words"):
        asyncio.run(target.complete(ASK))


def test_objects_become_json_and_words_are_tokens() -> None:
    reply = asyncio.run(ScriptedTarget([{"answer": "a b"}]).complete(ASK))
    assert reply.text == '{"answer": "a b"}'
    assert (reply.usage.prompt, reply.usage.completion) == (2, 3)


def test_held_requests_are_answered_in_steps_as_deep_as_the_calls_are() -> None:
    target = ScriptedTarget(lambda request: "yes", hold=True)

    async def two_calls() -> None:
        await target.complete(ASK)
        await target.complete(ASK)

    async def all_of_them() -> None:
        await asyncio.gather(*(two_calls() for _ in range(5)), target.complete(ASK))

    asyncio.run(all_of_them())
    assert (target.steps, target.peak, len(target.requests)) == (2, 6, 11)
