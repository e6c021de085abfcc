"""vLLM's engine in this process, played by a stand-in: what it is given, and what is read from it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets import TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, TokenLogprob, Usage
from ragc.targets.openai_wire import is_context_error
from ragc.targets.vllm.offline import OfflineTarget
from ragc.targets.vllm.options import VllmOptions

ASK = ChatRequest((Message("user", "Name a colour."),))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class Tokenizer:
    """A token for each word; `variables` are those of the template that it was last given."""

    variables: dict[str, Any]

    def apply_chat_template(self, messages: Any, **more: Any) -> list[int]:
        assert {"add_generation_prompt": True, "return_dict": False}.items() <= more.items()
        self.variables = {name: more[name] for name in more.keys() - {"add_generation_prompt", "return_dict"}}
        return list(range(len(" ".join(m["content"] for m in messages).split())))

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [0] * len(text.split())


class Params(SimpleNamespace):
    """Parameters, as they were given."""


class Engine:
    """Answers every sample with its seed; keeps what it was asked."""

    def __init__(self, args: Any) -> None:
        if args.dtype == "float8":
            raise ValueError("no float8\n on this machine")
        self.args, self.requests, self.closed = args, list[tuple[Any, Params, str]](), False
        self.model_config = SimpleNamespace(max_model_len=args.max_model_len)

    @classmethod
    def from_engine_args(cls, args: Any) -> Engine:
        engines.append(cls(args))
        return engines[-1]

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer()

    async def generate(self, prompt: Any, params: Params, number: str) -> AsyncIterator[Any]:
        self.requests.append((prompt, params, number))
        await asyncio.sleep(0)
        scored = {
            1: SimpleNamespace(decoded_token="x", logprob=-0.5),
            2: SimpleNamespace(decoded_token="y", logprob=-9),
        }
        outputs = [
            SimpleNamespace(
                index=i,
                text=str((params.seed or 0) + i),
                finish_reason="length",
                token_ids=[1] * (i + 1),
                logprobs=[scored] * (i + 1) if params.logprobs else None,
            )
            for i in reversed(range(params.n))
        ]
        ids = prompt["prompt_token_ids"]
        of_prompt = [None, *({i: scored[2]} for i in ids[1:])] if params.prompt_logprobs == 0 else None
        yield SimpleNamespace(
            prompt_token_ids=ids, outputs=outputs, num_cached_tokens=2, prompt_logprobs=of_prompt
        )

    def shutdown(self) -> None:
        self.closed = True


class Kind(Enum):
    FINAL_ONLY = 1


engines: list[Engine] = []


@dataclass
class Args:
    model: str
    dtype: str = "auto"
    max_model_len: int = 40
    enforce_eager: bool = False


@pytest.fixture
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    engines.clear()
    parts: dict[str, dict[str, Any]] = {
        "vllm": {}, "vllm.engine": {}, "vllm.v1": {}, "vllm.v1.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": Args},
        "vllm.v1.engine.async_llm": {"AsyncLLM": Engine},
        "vllm.sampling_params": {
            "SamplingParams": Params, "StructuredOutputsParams": Params, "RequestOutputKind": Kind,
        },
    }  # fmt: skip
    for name, held in parts.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)


def build_target(**options: Any) -> OfflineTarget:
    target = build(TargetSpec(kind="vllm", model="some/model", options={"offline": True, **options}))
    assert isinstance(target, OfflineTarget)
    return target


def complete_all(target: OfflineTarget, *requests: ChatRequest) -> list[Reply]:
    async def go() -> list[Reply]:
        return await asyncio.gather(*(target.complete(request) for request in requests))

    return event_loop.run(go())


@pytest.mark.usefixtures("_vllm")
def test_the_engine_is_given_the_settings_and_every_request_as_a_server_would_take_it() -> None:
    target = build_target(dtype="half", context_tokens=50, flags={"enforce-eager": True})
    sampling = Sampling(0.5, 0.9, 20, top_k=4, min_p=0.1, seed=7, stop=("END",))
    (reply,) = complete_all(target, replace(ASK, sampling=sampling, schema=SCHEMA, sample=2))
    (engine,) = engines
    assert engine.args == Args("some/model", "half", 50, enforce_eager=True)
    ((prompt, params, _),) = engine.requests
    assert prompt == {"prompt_token_ids": [0, 1, 2]}
    settings = {
        name: value
        for name, value in vars(params).items()
        if name not in ("structured_outputs", "output_kind")
    }
    assert settings == {
        "n": 1, "temperature": 0.5, "top_p": 0.9, "max_tokens": 20, "top_k": 4, "min_p": 0.1, "stop": ["END"],
        "seed": 9, "logprobs": None, "prompt_logprobs": None,
    }  # fmt: skip
    assert params.structured_outputs.json == SCHEMA
    assert reply == Reply("9", "length", Usage(3, 1, 2))
    assert target.context_tokens == 50
    assert target.count_tokens("one two three") == 3
    event_loop.run(target.aclose())
    assert engine.closed


@pytest.mark.usefixtures("_vllm")
def test_draws_asked_for_together_are_one_request_and_scores_are_read() -> None:
    target = build_target()
    hot = replace(ASK, sampling=Sampling(temperature=1.0, max_tokens=9))
    replies = complete_all(target, *(replace(hot, sample=i) for i in (1, 0)))
    assert [r.text for r in replies] == ["1", "0"]
    assert [r.usage.completion for r in replies] == [2, 1]
    assert [params.n for _, params, _ in engines[0].requests] == [2]
    (scored,) = complete_all(
        target, ChatRequest(ASK.messages, None, Sampling(max_tokens=9), True, prompt_logprobs=True)
    )
    assert scored.logprobs == (TokenLogprob("x", -0.5),)
    assert scored.prompt_logprobs == (TokenLogprob("y", -9.0),) * 2
    assert len({number for _, _, number in engines[0].requests}) == 2
    event_loop.run(target.aclose())


@pytest.mark.usefixtures("_vllm")
def test_how_a_model_thinks_is_told_to_its_template_and_its_room_is_left_free() -> None:
    variables = {"enable_thinking": True}
    target = build_target(reasoning_effort="low", chat_template_kwargs=variables, thinking_tokens=12)
    complete_all(target, replace(ASK, sampling=Sampling(max_tokens=9)))
    assert target._tokenizer.variables == {"reasoning_effort": "low", **variables}
    assert (target.context_tokens, target.whole_context) == (28, 40)
    plain = build_target(reasoning_effort="low", chat_template_kwargs=variables, thinking_tokens=0)
    assert target.identity == f"{plain.identity}+12t"
    event_loop.run(target.aclose())


@pytest.mark.usefixtures("_vllm")
def test_what_does_not_fit_is_never_sent() -> None:
    target = build_target()
    for request in (
        ChatRequest((Message("user", "word " * 30),), sampling=Sampling(max_tokens=20)),
        ChatRequest(ASK.messages, sampling=Sampling(max_tokens=40)),
    ):
        with pytest.raises(TargetError) as caught:
            complete_all(target, request)
        assert is_context_error(str(caught.value))
    assert engines[0].requests == []
    event_loop.run(target.aclose())


@pytest.mark.usefixtures("_vllm")
def test_what_vllm_refuses_is_told_in_its_words() -> None:
    with pytest.raises(TargetError, match="could not load some/model: no float8 on this machine"):
        event_loop.run(build_target(dtype="float8").open())


def test_without_vllm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(TargetUnavailable, match=r"pip install 'ragc\[vllm\]'"):
        event_loop.run(build_target().open())


@pytest.mark.parametrize(
    ("options", "wrong"),
    [({"serve": True}, "not both"), ({"python": "python3"}, "runs in this one")],
)
def test_options_that_contradict_it_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        build_target(**options)
    with pytest.raises(UsageError, match="not both"):
        build(TargetSpec(kind="vllm", model="m", base_url="http://127.0.0.1:1/v1", options={"offline": True}))
    with pytest.raises(UsageError, match="needs a model"):
        build(TargetSpec(kind="vllm", options={"offline": True}))


@pytest.mark.usefixtures("_vllm")
def test_thoughts_are_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def generate(self: Engine, prompt: Any, params: Params, number: str) -> AsyncIterator[Any]:
        drawn = ["<think>", "why", "</think>", "blue"]
        output = SimpleNamespace(
            index=0,
            text="".join(drawn),
            finish_reason="stop",
            token_ids=list(range(4)),
            logprobs=[{n: SimpleNamespace(decoded_token=token, logprob=-n)} for n, token in enumerate(drawn)],
        )
        yield SimpleNamespace(
            prompt_token_ids=[1], outputs=[output], num_cached_tokens=0, prompt_logprobs=None
        )

    monkeypatch.setattr(Engine, "generate", generate)
    target = OfflineTarget("m", VllmOptions())
    reply = event_loop.run(target.complete(replace(ASK, logprobs=True, sampling=Sampling(max_tokens=9))))
    assert (reply.text, reply.thoughts, reply.usage.thinking) == ("blue", "why", 1)
    assert reply.logprobs == (TokenLogprob("blue", -3.0),)
