"""Our target on a real vLLM: typed replies, draws, scores, and what is wrong said clearly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest

from ragc.core import event_loop
from ragc.core.progress import listening
from ragc.errors import RequestRefused, TargetError, UnknownName
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.targets import build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling
from ragc.targets.chat import ChatTarget
from ragc.targets.options import TargetSpec
from ragc.testing import ListSource
from tests.integration.vllm_server import CONTEXT, address, model, python, surroundings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

ASK = ChatRequest(
    (Message("system", "You are brief."), Message("user", "Name a colour and say why you like it.")),
    sampling=Sampling(temperature=1.0, max_tokens=12, seed=40),
)
CITIES = ListSource(
    [
        Passage("1", "Eiffel Tower", "The Eiffel Tower stands in Paris."),
        Passage("2", "Prado", "The Prado is a museum in Madrid."),
        Passage("3", "Louvre", "The Louvre is a museum in Paris."),
    ]
)


class RecordingChat(ChatTarget):
    """Keeps what it was asked and what it said."""

    def __init__(self) -> None:
        super().__init__(address(), "model")
        self.exchanges: list[tuple[ChatRequest, Reply]] = []

    async def complete(self, request: ChatRequest) -> Reply:
        reply = await super().complete(request)
        self.exchanges.append((request, reply))
        return reply


@pytest.fixture(scope="module")
def target() -> Iterator[RecordingChat]:
    recording = RecordingChat()
    event_loop.run(recording.open())
    yield recording
    event_loop.run(recording.aclose())


def complete_draws(target: ChatTarget, *numbers: int, **sampling: Any) -> list[str]:
    """The texts of these draws, each asked for by itself."""
    request = replace(ASK, sampling=replace(ASK.sampling, **sampling))
    return [event_loop.run(target.complete(replace(request, sample=number))).text for number in numbers]


def test_what_it_can_do_is_found_when_it_is_opened(target: ChatTarget) -> None:
    assert target.capabilities >= {"schema", "logprobs", "prompt_logprobs", "seed", "prefix_cache"}
    assert target.context_tokens >= CONTEXT


@pytest.mark.parametrize(
    ("name", "knobs"),
    [("vanilla", {}), ("rqrag", {"mode": "tree", "max_depth": 1, "select": "vote", "n_conf_samples": 3})],
)
def test_every_reply_of_a_program_fits_its_schema(
    target: RecordingChat, name: str, knobs: dict[str, Any]
) -> None:
    target.exchanges.clear()
    runtime = Runtime({"main": target}, {"local": CITIES}, store=CallStore(None))
    prediction = method(name).build(runtime, knobs)(question="In which city is the Prado?")
    assert isinstance(prediction.answer, str)
    assert all(request.schema is not None for request, _ in target.exchanges)
    whole = [(request, reply) for request, reply in target.exchanges if reply.finish == "stop"]
    assert len(whole) >= len(target.exchanges) / 2
    for request, reply in whole:
        jsonschema.validate(json.loads(reply.text), dict(request.schema or {}))


def test_logprobs_are_those_of_the_replys_tokens(target: ChatTarget) -> None:
    reply = event_loop.run(target.complete(replace(ASK, logprobs=True, sampling=Sampling(max_tokens=8))))
    assert "".join(t.token for t in reply.logprobs) == reply.text
    assert len(reply.logprobs) == reply.usage.completion == 8
    assert all(t.logprob <= 0 for t in reply.logprobs)


def test_prompt_logprobs_are_those_of_the_prompts_tokens(target: ChatTarget) -> None:
    likely = ChatRequest(
        (Message("user", "one two three four five six seven eight nine ten"),),
        sampling=Sampling(max_tokens=1), prompt_logprobs=True,
    )  # fmt: skip
    unlikely = replace(
        likely, messages=(Message("user", "six ten nine one four eight two five seven three"),)
    )
    scores = []
    for request in (likely, unlikely):
        reply = event_loop.run(target.complete(request))
        assert len(reply.prompt_logprobs) == reply.usage.prompt - 1
        assert request.messages[0].content in "".join(t.token for t in reply.prompt_logprobs)
        scores.append(sum(t.logprob for t in reply.prompt_logprobs))
    assert scores[0] > scores[1]


def test_what_narrows_the_draw_narrows_it(target: ChatTarget) -> None:
    """A narrow draw is one text, however it is seeded; a free one is not, and the same seed repeats it."""
    assert len(set(complete_draws(target, 0, 1, 2, 3, top_k=1))) == 1
    assert len(set(complete_draws(target, 0, 1, 2, 3, min_p=1.0))) == 1
    free = complete_draws(target, 0, 1, 2, 3)
    assert len(set(free)) > 1
    assert complete_draws(target, 0, 1, 2, 3) == free


def test_a_model_that_is_not_served_is_named_with_the_nearest_one() -> None:
    wrong = ChatTarget(address(), "modle")
    with pytest.raises(UnknownName, match=r"'modle'.*Did you mean 'model'"):
        event_loop.run(wrong.open())
    event_loop.run(wrong.aclose())


def test_too_long_a_prompt_is_a_refusal_of_its_kind(target: ChatTarget) -> None:
    long = ChatRequest((Message("user", "word " * target.context_tokens),))
    with pytest.raises(RequestRefused, match="does not fit") as caught:
        event_loop.run(target.complete(long))
    assert caught.value.kind == "too long"


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in surroundings().items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_offline")
def test_serve_starts_a_server_that_two_targets_share_and_stops_it() -> None:
    options = {
        "serve": True, "python": python(), "dtype": "float32", "context_tokens": 512,
        "flags": {"enforce-eager": True, "max_num_seqs": 4},
    }  # fmt: skip
    first, second = (build(TargetSpec(kind="vllm", model=model(), options=options)) for _ in range(2))
    lines: list[str] = []

    async def go() -> tuple[Reply, Reply]:
        with listening(lines.append):
            await first.open()
            await second.open()
        request = replace(ASK, sampling=Sampling(max_tokens=8))
        return await first.complete(request), await second.complete(request)

    replies = event_loop.run(go())
    assert replies[0].text == replies[1].text != ""
    assert first.context_tokens == 512
    assert first.capabilities >= {"prompt_logprobs"}
    assert lines[0].startswith("starting vLLM")
    assert lines[-1].startswith("vLLM serves")
    assert sum(line.startswith("starting") for line in lines) == 1
    assert isinstance(first, ChatTarget)
    health = f"{first.endpoint.removesuffix('/v1')}/health"
    event_loop.run(first.aclose())
    assert httpx.get(health, trust_env=False).status_code == 200
    event_loop.run(second.aclose())
    with pytest.raises(httpx.ConnectError):
        httpx.get(health, trust_env=False)


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({"flags": {"no_such_flag": 1}}, "error: unrecognized arguments: --no-such-flag"),
        ({"context_tokens": 10**7}, "max_model_len|max_position_embeddings|max seq len"),
    ],
)
def test_a_flag_that_vllm_refuses_is_told_in_its_words(options: dict[str, Any], quoted: str) -> None:
    target = build(
        TargetSpec(kind="vllm", model=model(), options={"serve": True, "python": python(), **options})
    )
    with pytest.raises(TargetError, match=quoted):
        event_loop.run(target.open())
