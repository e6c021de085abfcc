"""What every kind of target at a server promises, before a server that is well and one that misbehaves.

A new kind gets the suite by a row in `tests.support.targets`. The embedded one has no server: its own tests
and those of integration hold its promises.
"""

from __future__ import annotations

import asyncio
import copy
import random
from functools import partial
from typing import Any

import pytest

from tests.examples import thorough
from tests.support.kinds import (
    TARGETS,
    CallStore,
    ChatRequest,
    Counters,
    Gateway,
    Message,
    Reply,
    RequestRefused,
    Runtime,
    Sampling,
    TargetError,
    TargetSpec,
    TargetStopped,
    TargetUnavailable,
    TokenLogprob,
    Usage,
    UsageError,
    build,
    counting,
)
from tests.support.server import (
    MODEL,
    SECRET,
    WAYS,
    Answer,
    Asked,
    ScriptedServer,
    Thinker,
    answer_of,
    build_answer,
    completion,
    failing,
    in_order,
    models,
    serving,
    thoughts_of,
)
from tests.support.targets import KINDS, QUESTIONS, Waits, finished, right, scored, target_of
from tests.targets.conftest import only_our_key

__all__ = ["only_our_key"]
pytestmark = pytest.mark.usefixtures("only_our_key")
kinds = pytest.mark.parametrize("kind", KINDS)

KEY = "sk-lab-0123456789abcdef"
ASK = ChatRequest((Message("system", "Be brief."), Message("user", "Capital of Peru?")))
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
JSON = '{"answer": "Lima"}'
LIMA = build_answer("Lima")


def ask(
    kind: str, server: ScriptedServer, request: ChatRequest = ASK, waits: Waits | None = None, **options: Any
) -> Reply:
    """The reply of a target of `kind` at `server`."""
    target = target_of(kind, server.url, waits or Waits(), **options)
    return finished(target, target.complete(request))


def refused(kind: str, server: ScriptedServer, request: ChatRequest = ASK, **options: Any) -> TargetError:
    """The error of `ask`, which is one sentence and shows no key."""
    with pytest.raises(TargetError) as caught:
        ask(kind, server, request, **options)
    return is_sentence(caught.value)


def is_sentence(error: TargetError) -> TargetError:
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 600
    assert KEY not in text
    assert KEY[:12] not in text
    return error


def in_gateway(
    kind: str, server: ScriptedServer, *requests: ChatRequest, **options: Any
) -> tuple[list[Reply], Counters]:
    """The replies of a gateway with an empty store to `requests`, one after another, and what they took."""
    target, gateway = target_of(kind, server.url, Waits(), **options), Gateway(CallStore(None))

    async def go() -> tuple[list[Reply], Counters]:
        with counting(Counters()) as spent:
            return [await gateway.complete(target, request) for request in requests], spent

    return finished(target, go())


def test_every_kind_that_is_listed_has_a_row() -> None:
    assert set(TARGETS) == {*KINDS, "embedded"}


@kinds
def test_what_is_asked_for_reaches_the_wire_and_what_is_said_comes_back(kind: str) -> None:
    sampling = Sampling(0.5, 0.9, 12, seed=3, stop=("END",))
    answer = completion({"content": JSON}, "length", prompt_tokens_details={"cached_tokens": 16})
    with serving(in_order(answer)) as server:
        reply = ask(kind, server, ChatRequest(ASK.messages, SCHEMA, sampling, sample=4))
        (body,) = server.bodies
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Capital of Peru?"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 12,
        "seed": 7,
        "stop": ["END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
        },
    }
    assert (reply.text, reply.finish, reply.usage) == (JSON, "length", Usage(20, 3, 16))


@kinds
def test_log_probabilities_come_back_and_are_missed(kind: str) -> None:
    drawn = {"content": [{"token": "Lima", "logprob": -0.25, "bytes": None, "top_logprobs": []}]}
    message = {"role": "assistant", "content": "Lima"}
    scored = answer_of({"index": 0, "finish_reason": "stop", "message": message, "logprobs": drawn})
    request = ChatRequest(ASK.messages, logprobs=True)
    with serving(in_order(scored, LIMA)) as server:
        assert ask(kind, server, request).logprobs == (TokenLogprob("Lima", -0.25),)
        assert server.bodies[0]["logprobs"] is True
        assert 'lacks = ["logprobs"]' in str(refused(kind, server, request))


@kinds
def test_a_reply_without_text_is_a_reply(kind: str) -> None:
    with serving(in_order(completion({"content": None}))) as server:
        assert ask(kind, server).text == ""


PASSING = {
    "429 with Retry-After": failing(429, "slow down", retry_after="7"),
    "429": failing(429, "slow down"),
    **{str(status): failing(status) for status in (408, 500, 503, 504)},
    "502 in HTML": Answer(b"<html>Bad gateway</html>", 502, "text/html"),
    "reset before the head": Answer(LIMA.body, ending="reset"),
    "reset mid-body": Answer(LIMA.body, ending="reset", sent=40),
    "half a JSON": Answer(LIMA.body[: len(LIMA.body) // 2]),
    "no choices": Answer(b'{"id": "x", "object": "chat.completion", "model": "m", "choices": []}'),
    "a list": Answer(b"[1]"),
    "wrong content type": Answer(b"<html>Welcome!</html>", content_type="text/html"),
    "empty body": Answer(b""),
}


@kinds
@pytest.mark.parametrize("fault", PASSING.values(), ids=list(PASSING))
def test_a_passing_fault_is_tried_again_up_to_the_stated_tries(kind: str, fault: Answer) -> None:
    waits = Waits()
    with serving(in_order(fault, fault, LIMA)) as server:
        assert ask(kind, server, waits=waits).text == "Lima"
        assert server.bodies == [server.bodies[0]] * 3
    first, second = waits.slept
    if fault.headers:
        assert 7 <= min(first, second) <= max(first, second) < 8
    else:
        assert 0.25 <= first <= 0.5 <= second <= 1
    with serving(in_order(fault)) as server:
        error = refused(kind, server, tries=3, total_s=60.0)
        assert isinstance(error, TargetUnavailable)
        assert server.url in str(error)
        assert "tried 3 times" in str(error)
        assert len(server.requests) == 3


FINAL = [
    (400, "bad top_p", "failed"),
    (422, "bad top_p", "failed"),
    (400, "This model's maximum context length is 512 tokens", "too long"),
    (500, "This model's maximum context length is 512 tokens", "too long"),
    (400, "The prompt was flagged by our content policy", "filtered"),
    (401, f"Incorrect API key provided: {KEY}", "stopped"),
    (403, "not yours", "stopped"),
    (404, "The model does not exist", "stopped"),
    (429, "You exceeded your current quota, check your plan", "stopped"),
]


@kinds
@pytest.mark.parametrize(("status", "message", "outcome"), FINAL)
def test_what_another_try_cannot_cure_is_said_at_once_and_without_the_key(
    kind: str, status: int, message: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CRED", f" {KEY}\n")
    with serving(in_order(failing(status, message, x_request_id="req-9"))) as server:
        error = refused(kind, server, api_key_env="LAB_CRED")
        assert (error.kind if isinstance(error, RequestRefused) else "stopped") == outcome
        assert isinstance(error, RequestRefused | TargetStopped)
        assert f"answered {status} to request req-9: {message[:9]}" in str(error)
        assert server.url in error.endpoint
        assert error.request_id == "req-9"
        (request,) = server.requests
        assert request.headers["authorization"] == f"Bearer {KEY}"


@kinds
def test_a_key_that_is_not_set_is_named_and_nothing_is_sent(kind: str) -> None:
    with serving(in_order(LIMA)) as server:
        with pytest.raises(UsageError, match="LAB_CRED"):
            ask(kind, server, api_key_env="LAB_CRED")
        assert server.requests == []


@kinds
def test_opening_looks_for_the_model_once_and_sends_no_completion(kind: str) -> None:
    with serving(in_order(LIMA)) as server:
        target = target_of(kind, server.url, Waits(), context_tokens=5)

        async def twice() -> None:
            await target.open()
            await target.open()

        finished(target, twice())
        assert target.context_tokens == 5
        assert server.paths == ["/v1/models"] * (kind == "vllm")


@pytest.mark.parametrize(
    ("page", "error", "says"),
    [
        (models("gpt-4o-mimi"), UsageError, r"gpt-4o-mini.*Did you mean 'gpt-4o-mimi'\?"),
        (failing(401, "who are you?"), TargetError, r"401.*(Check OPENAI_API_KEY|api_key_env)"),
        (None, TargetUnavailable, "start the server or correct base_url"),
    ],
    ids=["another model", "a wrong key", "no server"],
)
def test_opening_says_what_is_wrong_and_sends_no_completion(
    page: Any, error: type[Exception], says: str
) -> None:
    """Of vLLM alone: the first request to a hosted model says it."""
    with serving(in_order(LIMA)) as server:
        server.pages["/v1/models"] = page
        target = target_of("vllm", server.url, Waits())
        if page is None:
            server.close()
        with pytest.raises(error, match=says):
            finished(target, target.open())
        assert server.requests == []


@kinds
def test_a_server_that_is_gone_is_unavailable(kind: str) -> None:
    with serving(in_order(LIMA)) as server:
        target = target_of(kind, server.url, Waits(), tries=2)

        async def go() -> None:
            await target.open()
            server.close()
            await target.complete(ASK)

        with pytest.raises(TargetUnavailable, match=r"does not answer.*tried 2 times"):
            finished(target, go())


@thorough
@kinds
@pytest.mark.parametrize("sent", [-1, 0, 40], ids=["before the first byte", "after the head", "mid-body"])
def test_a_stall_is_asked_for_again_after_the_read_timeout(kind: str, sent: int) -> None:
    stalled = Answer(LIMA.body, ending="stall", sent=sent)
    with serving(in_order(stalled, LIMA)) as server:
        assert ask(kind, server, timeout_s=0.2, total_s=30.0).text == "Lima"
        assert len(server.requests) == 2
    with serving(in_order(stalled)) as server:
        error = refused(kind, server, timeout_s=0.2, total_s=30.0, tries=3)
        assert "within 0.2 s (tried 3 times)" in str(error)
        assert len(server.requests) == 3


@kinds
def test_all_tries_together_end_with_the_cap(kind: str) -> None:
    with serving(in_order(Answer(LIMA.body, ending="stall"))) as server:
        assert "within 0.3 s" in str(refused(kind, server, total_s=0.3, timeout_s=30.0))
        assert len(server.requests) == 1
    waits = Waits()
    with serving(in_order(failing(429, "tomorrow", retry_after="86400"))) as server:
        assert "tomorrow" in str(refused(kind, server, waits=waits))
        assert (len(server.requests), waits.slept) == (1, [])


@kinds
def test_one_in_ten_failing_under_64_in_flight_loses_and_doubles_nothing(kind: str) -> None:
    faults = [*PASSING.values()][2:]
    draws = random.Random(3)
    failed: list[str] = []

    def script(request: Asked) -> Answer:
        if draws.random() < 0.1:
            failed.append(request.text)
            return draws.choice(faults)
        return right(request)

    with serving(script, together=64) as server:
        rows, spent = scored(kind, server, tries=8)
        times = server.times
    assert [row.prediction for row in rows] == [question.answers[0] for question in QUESTIONS]
    assert {row.scores["em"] for row in rows} == {1.0}
    assert spent.sent == spent.lm_calls == len(QUESTIONS) == len(times)
    assert all(times[text] == 1 + failed.count(text) for text in times)
    assert 5 <= len(failed) <= 60


@kinds
def test_what_is_used_is_counted_and_priced_and_an_equal_request_is_not_sent_again(kind: str) -> None:
    price = {"input": 2.0, "cached_input": 1.0, "output": 8.0}
    million = completion(
        {"content": "Lima"},
        prompt_tokens=1_000_000,
        completion_tokens=250_000,
        prompt_tokens_details={"cached_tokens": 500_000},
    )
    request = ChatRequest(ASK.messages, sampling=Sampling(max_tokens=10**6))
    with serving(in_order(million)) as server:
        first, spent = in_gateway(kind, server, request, request, price=price, context_tokens=2 * 10**6)
        assert len(server.requests) == 1
    assert first[0].usd == first[1].usd == pytest.approx(1 + 0.5 + 2)
    assert (spent.lm_calls, spent.sent, spent.replayed) == (2, 1, 1)
    assert (spent.prompt_tokens, spent.completion_tokens) == (2_000_000, 500_000)
    assert spent.usd == pytest.approx(7)


@kinds
def test_no_more_requests_a_minute_are_sent_than_is_said(kind: str) -> None:
    with serving(in_order(LIMA)) as server:
        target = target_of(kind, server.url, Waits(), requests_per_minute=2)
        gateway = Gateway(CallStore(None))

        async def go() -> None:
            asked = [ChatRequest((Message("user", f"{n}?"),)) for n in range(3)]
            for request in asked[:2]:
                await gateway.complete(target, request)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(gateway.complete(target, asked[2]), 0.3)

        finished(target, go())
        assert len(server.requests) == 2


@kinds
def test_a_fallback_answers_while_a_server_fails_under_its_own_name(kind: str) -> None:
    with (
        serving(in_order(failing(503), failing(400, "bad top_p"))) as down,
        serving(in_order(LIMA)) as up,
    ):
        main = target_of(kind, down.url, Waits(), tries=1, fallbacks=("second",))
        second = target_of(kind, up.url, Waits())
        runtime = Runtime({"main": main, "second": second}, store=CallStore(None))

        async def go() -> None:
            other = ChatRequest((Message("user", "Capital of Chile?"),))
            assert (await runtime.gateway.complete(main, ASK)).text == "Lima"
            with pytest.raises(TargetError, match="bad top_p"):  # a wrong request goes to nobody else
                await runtime.gateway.complete(main, other)
            await second.aclose()

        finished(main, go())
        assert (len(down.requests), len(up.requests)) == (2, 1)
        assert set(runtime.gateway.used) == {second.identity}


@kinds
@pytest.mark.parametrize("way", WAYS)
def test_thoughts_stand_apart_from_the_reply_and_are_counted(kind: str, way: Any) -> None:
    if way == "parts" and kind == "hosted":
        pytest.skip("LiteLLM reads no lists of parts from servers of one's own")
    with serving(Thinker(lambda request: JSON, way, tokens=50)) as server:
        (reply,), spent = in_gateway(kind, server, ASK)
        scored_reply = ask(kind, server, ChatRequest(ASK.messages, logprobs=True))
    assert (reply.text, reply.finish, reply.reasoning) == (JSON, "stop", thoughts_of(50))
    assert SECRET not in reply.text
    assert 0 < reply.usage.reasoning == spent.thinking_tokens <= reply.usage.completion == 52
    assert "".join(token.token for token in scored_reply.logprobs) == JSON
    assert {token.logprob for token in scored_reply.logprobs} == {-0.01}


Options = dict[str, Any]


@kinds
def test_a_target_is_shared_and_its_identity_says_what_answers(kind: str) -> None:
    made = partial(target_of, kind, "https://lab.example/v1/", Waits())
    plain, effort = made(), {"reasoning_effort": "low"}
    assert copy.deepcopy(plain) is plain
    assert plain.identity.endswith(f"{MODEL}@https://lab.example/v1")
    assert made(thinking_tokens=0, tries=2, concurrency=3).identity == plain.identity
    others = {made(body={"top_k": 3}).identity, made(**effort).identity, made(thinking_tokens=9).identity}
    assert len({plain.identity, *others}) == 4
    assert made(identity="weights-1").identity == "weights-1"
    assert made(body=effort).identity == made(**effort).identity
    with pytest.raises(UsageError, match="has reasoning_effort as an option and in body; leave one of"):
        TARGETS.get(kind).options.of({**effort, "body": effort})


@kinds
@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"tris": 2}, UsageError, "Did you mean 'tries'"),
        ({"tries": "2"}, UsageError, "whole number"),
        ({"tries": 0}, UsageError, "at least 1"),
        ({"timeout_s": 0}, UsageError, "above 0"),
        ({"body": {"api_key": "x"}}, UsageError, "api_key"),
        ({"lacks": ["shema"]}, UsageError, "Did you mean 'schema'"),
        ({"reasoning_effort": "hgh"}, UsageError, "Did you mean 'high'"),
        ({"price": {"input": 1}}, UsageError, "price.output is missing; add, for example, output = 0.6"),
    ],
)
def test_options_that_cannot_be_are_refused(
    kind: str, options: Options, error: type[UsageError], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        build(TargetSpec(kind=kind, model=MODEL, base_url="http://127.0.0.1:9/v1", options=options))


@kinds
@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "proxy"])
def test_an_address_that_cannot_be_is_refused(kind: str, url: str) -> None:
    with pytest.raises(UsageError, match="base_url"):
        build(TargetSpec(kind=kind, model=MODEL, base_url=url))


@kinds
def test_capabilities_are_corrected_by_options(kind: str) -> None:
    spec: dict[str, Any] = {"kind": kind, "model": f"openai/{MODEL}", "base_url": "http://127.0.0.1:9/v1"}
    plain = build(TargetSpec(**spec))
    assert {"schema", "logprobs", "seed", "prefix_cache"} == plain.capabilities
    other = build(TargetSpec(**spec, options={"lacks": ["seed"], "has": ["prefix_cache"]}))
    assert other.capabilities == plain.capabilities - {"seed"} | {"prefix_cache"}
