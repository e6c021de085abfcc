"""A server target: what it puts on the wire and reads beyond what every kind does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ragc.core.redact import redact, remember
from ragc.errors import TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.targets import TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage
from ragc.targets.chat import ChatTarget
from ragc.targets.vllm_options import VllmOptions
from tests.support.server import (
    MODEL,
    Answer,
    ScriptedServer,
    build_answer,
    failing,
    in_order,
    models,
    serving,
)
from tests.support.targets import Waits, finished, target_of

pytestmark = pytest.mark.filterwarnings("error")

URL = "http://127.0.0.1:8000/v1"
ASK = ChatRequest((Message("user", "Capital of Peru?"),))
LIMA = build_answer("Lima")


def ask(server: ScriptedServer, request: ChatRequest = ASK, **options: Any) -> Reply:
    target = target_of("vllm", server.url, Waits(), **options)
    return finished(target, target.complete(request))


def test_what_only_such_servers_take_is_sent_and_defaults_are() -> None:
    thinking: Any = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
    with serving(in_order(LIMA)) as server:
        ask(server)
        ask(server, ChatRequest(ASK.messages, sampling=Sampling(0.7, top_k=40, min_p=0.05)), **thinking)
        plain, drawn = server.bodies
    assert plain.keys() == {"model", "messages", "temperature", "top_p", "max_tokens"}
    assert (plain["temperature"], plain["top_p"], plain["max_tokens"]) == (0.0, 1.0, 256)
    assert (drawn["top_k"], drawn["min_p"]) == (40, 0.05)
    assert thinking.items() <= drawn.items()


def test_credentials_and_query_of_the_address_are_sent_and_never_shown() -> None:
    with serving(in_order(failing(401, "no user me"))) as server:
        target: Any = target_of("vllm", f"http://me:hushhush@127.0.0.1:{server.port}/v1/", Waits())
        with pytest.raises(TargetError, match="api_key_env") as caught:
            finished(target, target.complete(ASK))
        assert server.requests[0].headers["authorization"].startswith("Basic ")
    asked = ChatTarget("http://me:hushhush@gpu.lab:8000/v1/?api-version=2", "m")
    shown = f"{caught.value} {target!r} {asked!r} {asked.identity} {asked.name}"
    assert "hushhush" not in shown
    assert "api-version" not in shown
    assert asked.identity == "m@http://gpu.lab:8000/v1"


CUT = {"message": {"content": "half an ans"}, "finish_reason": "abort"}


@pytest.mark.parametrize("choices", [[{"message": {}}], None, [CUT]])
def test_what_is_no_whole_completion_is_tried_again(choices: Any) -> None:
    with serving(in_order(Answer(json.dumps({"choices": choices}).encode()), LIMA)) as server:
        assert ask(server).text == "Lima"


def test_counts_that_are_not_sent_are_estimated_and_those_of_llama_cpp_read() -> None:
    bare = {"choices": [{"message": {"content": "abcde"}}], "timings": {"cache_n": 4}}
    with serving(in_order(Answer(json.dumps(bare).encode()))) as server:
        assert ask(server).usage == Usage(4, 2, 4)


def opened(answer: Answer) -> ChatTarget:
    with serving() as server:
        server.pages["/v1/models"] = answer
        target = ChatTarget(server.url, MODEL, VllmOptions())
        finished(target, target.open())
        return target


def test_the_card_of_the_model_says_its_context() -> None:
    other = {"id": "other"}
    assert opened(models(other, {"id": MODEL, "max_model_len": 2048})).context_tokens == 2048
    assert opened(models({"id": MODEL, "meta": {"n_ctx_train": 8192}})).context_tokens == 8192


def test_opening_says_what_is_wrong_with_the_address() -> None:
    with pytest.raises(TargetError, match="/v1"):
        opened(Answer(b'{"hello": 1}'))
    with pytest.raises(TargetError, match="answered 404"):
        opened(Answer(b"Not Found", 404))
    gone = ChatTarget("http://127.0.0.1:9/v1", "m")
    with pytest.raises(TargetUnavailable) as caught:
        finished(gone, gone.open())
    assert str(caught.value).startswith("http://127.0.0.1:9/v1 does not answer (")


def test_one_target_serves_one_loop_after_another() -> None:
    with serving(in_order(LIMA)) as server:
        target = target_of("vllm", server.url, Waits())

        async def once() -> str:
            text = (await target.complete(ASK)).text
            await target.aclose()
            return text

        assert [asyncio.run(once()), asyncio.run(once())] == ["Lima", "Lima"]


def test_what_a_table_must_say_is_asked_for() -> None:
    with pytest.raises(UsageError, match="base_url"):
        build(TargetSpec(kind="vllm", model="m"))
    with pytest.raises(UsageError, match="name of the model"):
        build(TargetSpec(kind="vllm", base_url=URL))
    with pytest.raises(UnknownName, match="target kind"):
        build(TargetSpec(kind="vlm", model="m", base_url=URL))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abc***789xyz.",
        "Authorization: Bearer abcdefghijkl",
        "https://user:abcdefghijkl@host/v1",
        'api_key="abcdefghijkl"',
        "the value odd#value&99 from the environment",
        "a remembered one: qqqwwweee",
    ],
)
def test_redact_masks_whatever_looks_like_a_key(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "odd#value&99")
    remember("qqqwwweee")
    masked = redact(text)
    assert "[redacted]" in masked
    assert not any(s in masked for s in ("abc***", "abcdefghijkl", "odd#value", "qqqwww"))


def test_redact_leaves_ordinary_words_alone() -> None:
    text = "You asked for 5000 tokens; max tokens: 4096, model m at http://127.0.0.1:8000/v1?x=1"
    assert redact(text) == text
