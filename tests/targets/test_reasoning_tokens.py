"""Models that think have room for it on top of every limit, as many tokens as is typed, measured or known."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.programs.runtime import Runtime
from ragc.store.calls import CallStore
from ragc.targets import TARGETS
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.chat import ChatTarget
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.targets.gateway import Gateway
from ragc.targets.hosted import HostedTarget
from ragc.targets.options import EFFORTS, HostedOptions, VllmOptions
from ragc.targets.reasoning import BY_EFFORT, reasoning_of
from tests.support.server import Thinker, serving
from tests.support.targets import KINDS, Waits, finished, target_of

pytestmark = pytest.mark.usefixtures("only_our_key", "home")


def grade(tokens: int = 24) -> ChatRequest:
    return ChatRequest((Message("user", "Is it relevant?"),), sampling=Sampling(max_tokens=tokens))


def sent_limit(body: dict[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body["max_tokens"])


def vllm(model: str = "Qwen3-8B", **options: Any) -> ChatTarget:
    return ChatTarget("http://127.0.0.1:9/v1", model, VllmOptions(**options))


def hosted(model: str, **options: Any) -> HostedTarget:
    return HostedTarget(model, "", HostedOptions(**options))


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_limit_leaves_room_for_thoughts(kind: str) -> None:
    with serving(Thinker(lambda request: "yes", tokens=400, limit=True)) as server:
        gateway = Gateway(CallStore(None))
        plain, roomy = (
            target_of(kind, server.url, Waits(), **more) for more in ({}, {"thinking_tokens": 1000})
        )
        cut = finished(plain, gateway.complete(plain, grade()))
        whole = finished(roomy, gateway.complete(roomy, grade()))
    assert [sent_limit(body) for body in server.bodies] == [24, 1024]
    assert (cut.text, cut.finish) == ("", "length")
    assert (whole.text, whole.finish) == ("yes", "stop")


@pytest.mark.parametrize("kind", [*TARGETS])
@pytest.mark.parametrize("value", [-1, "much", 1.5, True, ""])
def test_bad_room_is_refused_in_one_sentence(kind: str, value: object) -> None:
    with pytest.raises(UsageError) as checked:
        TARGETS.get(kind).options.of({"thinking_tokens": value})
    words = 'thinking_tokens must be a whole number of at least 0, or "auto", found '
    assert str(checked.value).startswith(words)


@pytest.mark.parametrize(
    ("target", "tokens"),
    [
        (vllm(), 0),
        (vllm(reasoning_effort="low"), BY_EFFORT["low"]),
        (vllm(reasoning_effort="none"), 0),
        (vllm(chat_template_kwargs={"enable_thinking": True}), BY_EFFORT["medium"]),
        (vllm(chat_template_kwargs={"enable_thinking": False}, thinking_tokens="auto"), 0),
        (vllm(chat_template_kwargs={"reasoning_effort": "high"}), BY_EFFORT["high"]),
        (vllm(body={"reasoning_effort": "high"}), BY_EFFORT["high"]),
        (vllm(body={"thinking": {"type": "enabled", "budget_tokens": 3000}}), 3000),
        (vllm(thinking_tokens="auto"), BY_EFFORT["medium"]),
        (vllm(thinking_tokens="auto", context_tokens=4096), 2048),
        (vllm(thinking_tokens=7, reasoning_effort="high"), 7),
        (vllm("openai/gpt-oss-20b"), BY_EFFORT["medium"]),
        (vllm("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"), BY_EFFORT["medium"]),
        (hosted("openai/o3-mini"), BY_EFFORT["medium"]),
        (hosted("openai/o3-mini", reasoning_effort="low"), BY_EFFORT["low"]),
        (hosted("openai/gpt-4o-mini"), 0),
        (hosted("anthropic/claude-sonnet-4-20250514"), 0),
        (
            hosted("anthropic/claude-sonnet-4-20250514", reasoning_effort="medium"),
            BY_EFFORT["medium"],
        ),
    ],
    ids=str,
)
def test_auto_is_what_the_options_or_the_model_tell(target: Any, tokens: int) -> None:
    assert reasoning_of(target) == tokens
    assert BY_EFFORT.keys() == set(EFFORTS)


def test_embedded_room_is_declared_by_the_template() -> None:
    assert reasoning_of(EmbeddedTarget()) == 0
    target = EmbeddedTarget(chat_template_kwargs={"enable_thinking": True}, context=8192)
    assert reasoning_of(target) == BY_EFFORT["medium"]
    assert (target.context_tokens, target.whole_context) == (8192 - BY_EFFORT["medium"], 8192)
    assert target.identity != EmbeddedTarget().identity


def test_room_that_takes_the_whole_context_is_refused() -> None:
    with serving() as server:
        target = target_of("vllm", server.url, Waits(), thinking_tokens=40_000)
        with pytest.raises(
            UsageError, match=r"thinking_tokens = 40000 leaves nothing .* holds 32768 tokens; lower it"
        ):
            finished(target, Runtime({"main": target}).open())


def test_a_claude_that_thinks_draws_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-one")
    for options, drawn in (({}, True), ({"reasoning_effort": "low"}, False)):
        target: Any = hosted("anthropic/claude-sonnet-4-20250514", **options)
        assert ("temperature" in target.prepare(grade())) is drawn
