"""Draws that are asked for together: one request, one stored reply each, and nobody else's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.core import counters, event_loop
from ragc.core.counters import Counters
from ragc.errors import CapabilityMissing, TargetError
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, TokenLogprob
from ragc.targets.dspy_engine import as_lm
from ragc.targets.gateway import Gateway, request_key
from ragc.targets.sample_batching import SampleBatcher
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.target import VllmTarget
from tests.examples import examples

URL = "http://127.0.0.1:8000/v1"
ASK = ChatRequest((Message("user", "Name a colour."),), sampling=Sampling(temperature=0.7, seed=100))
CARD = {"id": "m", "owned_by": "vllm", "max_model_len": 512}


class Server:
    """Lists one model, and answers each sample with its seed; keeps the bodies that it was sent."""

    def __init__(self, card: dict[str, Any] = CARD) -> None:
        self.card, self.bodies = card, list[dict[str, Any]]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [self.card]})
        body = json.loads(request.content)
        self.bodies.append(body)
        if body["messages"][0]["content"] == "fail":
            return httpx.Response(400, json={"message": "not today"})
        drawn = range(body.get("n", 1))
        seed = body.get("seed")
        choices = [
            {
                "index": i,
                "message": {"content": "greedy" if seed is None else str(seed + i)},
                "finish_reason": "stop",
                "token_ids": [1] * (i + 1) if body.get("return_token_ids") else None,
            }
            for i in reversed(drawn)
        ]
        usage = {"prompt_tokens": 20, "completion_tokens": sum(i + 1 for i in drawn)}
        return httpx.Response(200, json={"choices": choices, "usage": usage})

    def target(self, **options: Any) -> VllmTarget:
        return VllmTarget(URL, "m", VllmOptions(**options), transport=httpx.MockTransport(self))


def complete_all(server: Server, requests: Sequence[ChatRequest], **options: Any) -> list[Reply]:
    async def go() -> list[Reply]:
        target = server.target(**options)
        await target.open()
        try:
            return await asyncio.gather(*(target.complete(request) for request in requests))
        finally:
            await target.aclose()

    return asyncio.run(go())


def draws(*numbers: int, of: ChatRequest = ASK) -> list[ChatRequest]:
    return [replace(of, sample=number) for number in numbers]


def test_draws_of_one_request_travel_together_and_come_back_each_to_its_own() -> None:
    server = Server()
    replies = complete_all(server, draws(3, 1, 2))
    assert [(b["n"], b["seed"]) for b in server.bodies] == [(3, 101)]
    assert [reply.text for reply in replies] == ["103", "101", "102"]
    assert [(r.usage.prompt, r.usage.completion) for r in replies] == [(20, 3), (20, 1), (20, 2)]


def test_what_is_no_run_of_one_request_travels_apart() -> None:
    server = Server()
    other = replace(ASK, messages=(Message("user", "Name a town."),))
    greedy = replace(ASK, sampling=Sampling())
    replies = complete_all(server, [*draws(0, 1, 5, 5), other, greedy, greedy])
    assert [r.text for r in replies] == ["100", "101", "105", "105", "100", "greedy", "greedy"]
    assert sorted((b.get("seed", 0), b.get("n", 1)) for b in server.bodies) == [
        (0, 1), (0, 1), (100, 1), (100, 2), (105, 1), (105, 1),
    ]  # fmt: skip


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 5))
def test_every_draw_has_the_reply_that_it_has_alone(numbers: list[int], most: int) -> None:
    sent: list[int] = []

    async def send(request: ChatRequest, n: int) -> list[Reply]:
        sent.append(n)
        return [Reply(str(request.sample + i)) for i in range(n)]

    async def go() -> list[Reply]:
        together = SampleBatcher(send, most=most)
        return await asyncio.gather(*(together.reply(request) for request in draws(*numbers)))

    assert [reply.text for reply in asyncio.run(go())] == [str(number) for number in numbers]
    assert sum(sent) == len(numbers)
    assert max(sent, default=1) <= most


@pytest.mark.parametrize(
    ("card", "options"),
    [
        ({"id": "m", "owned_by": "llamacpp"}, {}),
        (CARD, {"lacks": ("n",)}),
        (CARD, {"body": {"seed": 3}}),
    ],
)
def test_no_group_is_sent_where_it_would_not_be_the_same(card: Any, options: Any) -> None:
    server = Server(card)
    complete_all(server, draws(0, 1), **options)
    assert [body.get("n") for body in server.bodies] == [None, None]


def test_a_group_that_fails_fails_each_of_its_draws() -> None:
    async def go() -> list[Any]:
        target = Server().target()
        await target.open()
        bad = replace(ASK, messages=(Message("user", "fail"),))
        failed = await asyncio.gather(
            *(target.complete(request) for request in draws(0, 1, of=bad)), return_exceptions=True
        )
        await target.aclose()
        return failed

    failed = asyncio.run(go())
    assert [type(error) for error in failed] == [TargetError, TargetError]
    assert "not today" in str(failed[0])


def test_a_draw_that_is_given_up_takes_no_other_with_it_and_the_last_ends_the_request() -> None:
    ended: list[bool] = []

    async def go(survivors: int) -> list[Any]:
        sent, free = asyncio.Event(), asyncio.Event()

        async def send(request: ChatRequest, n: int) -> list[Reply]:
            sent.set()
            try:
                await free.wait()
            except asyncio.CancelledError:
                ended.append(True)
                raise
            return [Reply(str(i)) for i in range(n)]

        together = SampleBatcher(send)
        waiting = [asyncio.ensure_future(together.reply(request)) for request in draws(0, 1)]
        await sent.wait()
        for one in waiting[survivors:]:
            one.cancel()
        if survivors:
            free.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        for _ in range(5):
            await asyncio.sleep(0)
        return results

    first, second = asyncio.run(go(1))
    assert (first.text, type(second), ended) == ("0", asyncio.CancelledError, [])
    asyncio.run(go(0))
    assert ended == [True]


def test_draws_serve_one_loop_after_another() -> None:
    server = Server()
    target = server.target(has=("n",))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(target.complete(ASK), 0))
        assert asyncio.run(target.complete(ASK)).text == "100"


def test_a_group_fills_the_store_under_the_keys_that_its_draws_have_alone() -> None:
    server, store, spent = Server(), CallStore(None), Counters()
    target, alone = server.target(), server.target(lacks=("n",))

    async def go(with_target: VllmTarget, *numbers: int) -> list[Reply]:
        gateway = Gateway(store)
        await with_target.open()
        return await asyncio.gather(*(gateway.complete(with_target, r) for r in draws(*numbers)))

    with counters.counting(spent):
        first = event_loop.run(go(target, 0, 1, 2))
    assert (spent.sent, spent.replayed, spent.prompt_tokens, len(server.bodies)) == (3, 0, 60, 1)
    assert all(store.get(request_key(alone, request)) for request in draws(0, 1, 2))
    with counters.counting(spent):
        again = event_loop.run(go(alone, 1, 2, 3))
    assert [r.text for r in again] == ["101", "102", "103"]
    assert again[:2] == first[1:]
    assert (spent.sent, spent.replayed) == (4, 2)
    assert len(server.bodies) == 2
    event_loop.run(target.aclose())
    event_loop.run(alone.aclose())


def test_all_that_shapes_a_draw_reaches_the_server() -> None:
    server = Server()
    sampling = Sampling(0.7, 0.9, 33, top_k=5, min_p=0.1, seed=7, stop=("END",))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    request = replace(ASK, sampling=sampling, schema=schema)
    complete_all(server, draws(4, 5, of=request))
    (body,) = server.bodies
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Name a colour."}],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 33,
        "top_k": 5,
        "min_p": 0.1,
        "seed": 11,
        "stop": ["END"],
        "n": 2,
        "return_token_ids": True,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": schema},
        },
    }


def test_prompt_logprobs_are_asked_for_read_kept_and_part_of_the_key() -> None:
    second = {"8": {"logprob": -0.5, "decoded_token": " a"}, "9": {"logprob": -0.1, "decoded_token": "x"}}
    entries = [None, {"7": {"logprob": -1.5, "decoded_token": "Name", "rank": 2}}, second]
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [CARD]})
        sent.append(json.loads(request.content))
        body = {"choices": [{"message": {"content": "red"}}], "prompt_logprobs": entries}
        return httpx.Response(200, json=body)

    target = VllmTarget(URL, "m", transport=httpx.MockTransport(answer))
    scored = ChatRequest(ASK.messages, prompt_logprobs=True)
    with pytest.raises(CapabilityMissing, match="prompt_logprobs"):
        event_loop.run(Gateway(CallStore(None)).complete(target, scored))
    event_loop.run(target.open())
    store = CallStore(None)
    reply = event_loop.run(Gateway(store).complete(target, scored))
    assert sent[0]["prompt_logprobs"] == 0
    assert reply.prompt_logprobs == (TokenLogprob("Name", -1.5), TokenLogprob(" a", -0.5))
    assert event_loop.run(Gateway(store).complete(target, scored)) == reply
    assert len(sent) == 1
    assert request_key(target, scored) != request_key(target, ChatRequest(ASK.messages))
    entries.clear()
    with pytest.raises(TargetError, match="no prompt_logprobs"):
        event_loop.run(target.complete(scored))
    event_loop.run(target.aclose())


def test_a_reply_longer_than_the_context_is_refused_before_it_is_sent() -> None:
    server = Server()
    with pytest.raises(TargetError, match=r"context window .* 512 tokens"):
        complete_all(server, [ChatRequest(ASK.messages, sampling=Sampling(max_tokens=512))])
    assert server.bodies == []


@pytest.mark.parametrize(("lacks", "sent"), [((), [4]), (("n",), [1, 1, 1, 1])])
def test_dspys_n_is_one_request_where_the_server_can_and_gives_the_same(
    lacks: tuple[str, ...], sent: list[int]
) -> None:
    server, spent = Server(), Counters()
    target, gateway = server.target(lacks=lacks), Gateway(CallStore(None))
    event_loop.run(target.open())

    def complete(request: ChatRequest) -> Any:
        return gateway.complete(target, request)

    lm = as_lm(complete, target, sampling=Sampling(temperature=0.7, seed=3))
    with counters.counting(spent):
        assert lm("Name a colour.", n=4) == ["3", "4", "5", "6"]
        assert lm("Name a colour.", n=2, temperature=0.7) == ["3", "4"]
    assert [body.get("n", 1) for body in server.bodies] == sent
    assert (spent.sent, spent.replayed) == (4, 2)
    assert asyncio.run(lm.acall("Name a colour.", n=3, rollout_id=1)) == ["1027", "1028", "1029"]
    event_loop.run(target.aclose())
