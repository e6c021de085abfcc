"""Models that think have room for it on top of every limit, as many tokens as is typed, measured or known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.errors import UsageError
from ragc.programs.runtime import Runtime
from ragc.store.call_store import CallStore
from ragc.targets import TARGETS, build
from ragc.targets.base import ChatRequest, Message, Sampling, Target
from ragc.targets.charges import Charge
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.targets.gateway import Gateway
from ragc.targets.hosted.options import HostedOptions
from ragc.targets.hosted.target import HostedTarget
from ragc.targets.options import EFFORTS, TargetSpec
from ragc.targets.prices import request_limits
from ragc.targets.thinking import DEFAULT_THINKING_TOKENS, THINKING_TOKENS_BY_EFFORT, room_of
from ragc.targets.token_price import reply_bound
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.target import VllmTarget
from ragc.task.base import recorded_rooms
from tests.support.server import Answer, Asked, build_answer, serving
from tests.support.targets import KINDS, Waits, finished, target_of

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    return tmp_path


def thinker(tokens: int) -> Callable[[Asked], Answer]:
    """A server whose model thinks for `tokens` tokens before it answers, and counts them."""

    def script(request: Asked) -> Answer:
        reply = json.loads(build_answer("yes").body)
        limit = request.body.get("max_completion_tokens") or request.body["max_tokens"]
        thought = min(tokens, limit)
        reply["usage"] |= {
            "completion_tokens": min(tokens + 3, limit),
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
        if tokens + 3 > limit:
            reply["choices"][0] |= {
                "finish_reason": "length",
                "message": {"role": "assistant", "content": ""},
            }
        return Answer(json.dumps(reply).encode())

    return script


def grade(tokens: int = 24) -> ChatRequest:
    return ChatRequest((Message("user", "Is it relevant?"),), sampling=Sampling(max_tokens=tokens))


def sent_limit(body: dict[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body["max_tokens"])


def vllm(model: str = "Qwen3-8B", **options: Any) -> VllmTarget:
    return VllmTarget("http://127.0.0.1:9/v1", model, VllmOptions(**options))


def hosted(model: str, **options: Any) -> HostedTarget:
    return HostedTarget(model, "", HostedOptions(**options))


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_limit_leaves_room_for_thoughts(kind: str) -> None:
    with serving(thinker(400)) as server:
        gateway = Gateway(CallStore(None))
        plain, roomy = (
            target_of(kind, server.url, Waits(), **more) for more in ({}, {"thinking_tokens": 1000})
        )
        cut = finished(plain, gateway.complete(plain, grade()))
        whole = finished(roomy, gateway.complete(roomy, grade()))
    assert [sent_limit(body) for body in server.bodies] == [24, 1024]
    assert (cut.text, cut.finish) == ("", "length")
    assert (whole.text, whole.finish) == ("yes", "stop")


def test_a_provider_that_wants_another_name_for_the_limit_gets_the_room_under_it() -> None:
    target = hosted("openai/o3-mini", thinking_tokens=1000)
    request = grade()
    import litellm

    arguments = litellm.utils.get_optional_params(
        model="o3-mini",
        custom_llm_provider="openai",
        max_tokens=request.sampling.max_tokens + room_of(target),
    )
    assert arguments["max_completion_tokens"] == 1024


def test_the_limit_of_llama_cpp_has_the_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    target = EmbeddedTarget("thinker.gguf", context=2048, thinking_tokens=1000)
    seen: list[ChatRequest] = []

    async def complete(request: ChatRequest) -> Any:
        seen.append(request)
        raise UsageError("seen")

    monkeypatch.setattr(EmbeddedTarget, "identity", "weights")
    monkeypatch.setattr(target, "complete", complete)
    with pytest.raises(UsageError, match="seen"):
        event_loop.run(Gateway(CallStore(None)).complete(target, grade()))
    assert seen[0].sampling.max_tokens == 1024
    assert (target.context_tokens, target.whole_context) == (1048, 2048)


def test_variables_of_the_template_reach_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    from ragc.targets.embedded import target as embedded

    target = EmbeddedTarget(
        "thinker.gguf", reasoning_effort="low", chat_template_kwargs={"enable_thinking": True}
    )
    bodies: list[Any] = []

    def ask(model: object, body: Any, *rest: object) -> Any:
        bodies.append(body)
        raise UsageError("seen")

    monkeypatch.setattr(target, "_held", (None, None))
    monkeypatch.setattr(embedded, "_ask", ask)
    with pytest.raises(UsageError, match="seen"):
        event_loop.run(target.complete(grade()))
    assert bodies[0]["chat_template_kwargs"] == {"reasoning_effort": "low", "enable_thinking": True}


@pytest.mark.parametrize("kind", TARGETS)
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
        (vllm(reasoning_effort="low"), THINKING_TOKENS_BY_EFFORT["low"]),
        (vllm(reasoning_effort="none"), 0),
        (vllm(chat_template_kwargs={"enable_thinking": True}), DEFAULT_THINKING_TOKENS),
        (vllm(chat_template_kwargs={"enable_thinking": False}, thinking_tokens="auto"), 0),
        (vllm(chat_template_kwargs={"reasoning_effort": "high"}), THINKING_TOKENS_BY_EFFORT["high"]),
        (vllm(body={"reasoning_effort": "high"}), THINKING_TOKENS_BY_EFFORT["high"]),
        (vllm(body={"thinking": {"type": "enabled", "budget_tokens": 3000}}), 3000),
        (vllm(thinking_tokens="auto"), DEFAULT_THINKING_TOKENS),
        (vllm(thinking_tokens="auto", context_tokens=4096), 2048),
        (vllm(thinking_tokens=7, reasoning_effort="high"), 7),
        (vllm("openai/gpt-oss-20b"), DEFAULT_THINKING_TOKENS),
        (vllm("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"), DEFAULT_THINKING_TOKENS),
        (hosted("openai/o3-mini"), DEFAULT_THINKING_TOKENS),
        (hosted("openai/o3-mini", reasoning_effort="low"), THINKING_TOKENS_BY_EFFORT["low"]),
        (hosted("openai/gpt-4o-mini"), 0),
        (hosted("anthropic/claude-sonnet-4-20250514"), 0),
        (
            hosted("anthropic/claude-sonnet-4-20250514", reasoning_effort="medium"),
            THINKING_TOKENS_BY_EFFORT["medium"],
        ),
    ],
    ids=str,
)
def test_auto_is_what_the_options_or_the_model_tell(target: Any, tokens: int) -> None:
    assert room_of(target) == tokens
    assert THINKING_TOKENS_BY_EFFORT.keys() == set(EFFORTS)


def test_a_server_that_ragc_starts_has_room_too() -> None:
    options = {"serve": True, "context_tokens": 4096}
    plain, roomy = (
        build(TargetSpec(kind="vllm", model="some/model", options={**options, **more}))
        for more in ({}, {"thinking_tokens": 96})
    )
    assert roomy.identity == f"{plain.identity}+96t"
    assert (plain.context_tokens, roomy.context_tokens) == (4096, 4000)


@pytest.mark.parametrize(
    ("facts", "rooms"),
    [
        ({"targets": {"main": {"thinking_tokens": 512}, "judge": {"name": "x"}}}, {"main": 512, "judge": 0}),
        ({"targets": {"main": {"thinking_tokens": True}, "judge": 3}}, {"main": 0}),
        ({"targets": {"main": {"thinking_tokens": -1}}}, {"main": 0}),
        ({"targets": []}, {}),
        ({}, {}),
    ],
)
def test_rooms_are_read_from_facts_whatever_stands_there(facts: Any, rooms: dict[str, int]) -> None:
    assert recorded_rooms(facts) == rooms


def test_embedded_room_is_declared_by_the_template() -> None:
    assert room_of(EmbeddedTarget()) == 0
    target = EmbeddedTarget(chat_template_kwargs={"enable_thinking": True}, context=8192)
    assert room_of(target) == DEFAULT_THINKING_TOKENS
    assert target.identity.partition("@sha256:")[2] == EmbeddedTarget().identity.partition("@sha256:")[2]
    assert target.identity != EmbeddedTarget().identity


def test_room_is_reserved_of_a_budget_and_bounds_what_a_request_takes() -> None:
    from ragc.targets.thinking import with_room

    price = {"input": 1.0, "output": 10.0}
    plain = vllm(context_tokens=8192, price=price)
    roomy = vllm(context_tokens=8192, price=price, thinking_tokens=1000)
    needs = [
        Charge(None, "k", target, with_room(target, grade()), lambda: True).need  # type: ignore[arg-type]
        for target in (plain, roomy)
    ]
    assert needs[1].tokens - needs[0].tokens == 1000
    assert needs[1].usd - needs[0].usd == pytest.approx(1000 * 10 / 1e6)
    assert reply_bound(roomy, with_room(roomy, grade())) == 1024
    dearer = [request_limits(target, 24).usd(24) for target in (plain, roomy)]
    assert dearer[1] == pytest.approx((dearer[0] or 0) + 1000 * 10 / 1e6)
    assert request_limits(EmbeddedTarget(context=2048, thinking_tokens=1000), 24).tokens == 2048


def test_room_that_takes_the_whole_context_is_refused() -> None:
    with serving(thinker(0)) as server:
        target = target_of("vllm", server.url, Waits(), thinking_tokens=40_000)
        with pytest.raises(
            UsageError, match=r"thinking_tokens = 40000 leaves nothing .* holds 32768 tokens; lower it"
        ):
            finished(target, Runtime({"main": target}).open())


@pytest.mark.parametrize(
    ("model", "options", "refused"),
    [
        ("openai/o3-mini", {}, ("temperature", "top_p")),
        ("openai/gpt-5-mini", {}, ("temperature", "top_p")),
        ("openai/gpt-4o-mini", {}, ()),
        ("anthropic/claude-sonnet-4-20250514", {}, ()),
        ("anthropic/claude-sonnet-4-20250514", {"reasoning_effort": "low"}, ("temperature", "top_p")),
    ],
)
def test_what_a_thinking_model_does_not_take_is_known_before_it_is_asked(
    model: str, options: dict[str, Any], refused: tuple[str, ...]
) -> None:
    target: Target = build(TargetSpec(kind="hosted", model=model, options=options))
    assert getattr(target, "refused_by_thinking") == refused  # noqa: B009 - of hosted targets alone


def test_a_claude_that_thinks_draws_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-one")
    from ragc.targets.hosted.litellm import load

    for options, drawn in (({}, True), ({"reasoning_effort": "low"}, False)):
        target: Any = hosted("anthropic/claude-sonnet-4-20250514", **options)
        target._litellm, target._bare, target._provider = load(), "claude-sonnet-4-20250514", "anthropic"
        assert ("temperature" in target.arguments(grade())) is drawn
