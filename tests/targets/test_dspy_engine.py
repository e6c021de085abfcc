"""Targets as DSPy language models."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import dspy
import pydantic
import pytest

from ragc.core import event_loop
from ragc.errors import BudgetExhausted, RequestRefused, TargetUnavailable
from ragc.targets.base import Capability, ChatRequest, Reply, Sampling, Usage
from ragc.targets.dspy_lm import as_lm, cause
from ragc.testing import ScriptedTarget

CHAT = "[[ ## answer ## ]]\nLima\n\n[[ ## completed ## ]]"


class Scripted(ScriptedTarget):
    """A target that replays `replies`, named as one of OpenAI's; it is asked on ragc's loop."""

    def __init__(self, *replies: Reply | str, lacks: tuple[Capability, ...] = ()) -> None:
        able: tuple[Capability, ...] = ("schema", "logprobs", "seed")
        super().__init__(replies, capabilities=[name for name in able if name not in lacks])
        self.model = "org/gpt-5"

    async def complete(self, request: ChatRequest) -> Reply:
        return await event_loop.on_loop(super().complete(request))

    def lm(self, **sampling: Any) -> dspy.LM:
        return as_lm(self.complete, self, sampling=Sampling(**sampling))


def predict(
    signature: Any, lm: dspy.LM, adapter: dspy.Adapter | None = None, *, config: Any = None, **inputs: Any
) -> Any:
    with dspy.context(lm=lm, adapter=adapter or dspy.ChatAdapter(use_json_adapter_fallback=False)):
        return dspy.Predict(signature)(config=config or {}, **inputs)


class Verdict(pydantic.BaseModel):
    label: Literal["yes", "no"]
    score: int = pydantic.Field(ge=0, le=10)


class Judge(dspy.Signature):
    """Judge the claim."""

    claim: str = dspy.InputField()
    verdict: Verdict = dspy.OutputField()


def test_chat_adapter_reaches_the_target_and_back() -> None:
    target = Scripted(Reply(CHAT, usage=Usage(20, 5, 8), usd=0.25))
    lm = target.lm(max_tokens=33, top_k=7, stop=("END",))
    assert predict("question -> answer", lm, question="Capital of Peru?").answer == "Lima"
    (request,) = target.requests
    assert [m.role for m in request.messages] == ["system", "user"]
    assert "Capital of Peru?" in request.messages[1].content
    assert request.sampling == Sampling(max_tokens=33, top_k=7, stop=("END",))
    assert (request.schema, request.logprobs, request.sample) == (None, False, 0)
    entry = lm.history[-1]
    assert entry["usage"]["prompt_tokens"] == 20
    assert entry["usage"]["prompt_tokens_details"]["cached_tokens"] == 8
    assert entry["response"].provider_data == {"usd": 0.25}


def test_json_adapter_sends_the_strict_schema_with_its_bounds() -> None:
    target = Scripted('{"verdict": {"label": "yes", "score": 7}}')
    out = predict(Judge, target.lm(), dspy.JSONAdapter(), claim="Water is wet.")
    assert out.verdict == Verdict(label="yes", score=7)
    schema = target.requests[0].schema
    assert schema is not None
    assert schema["required"] == ["verdict"]
    assert schema["additionalProperties"] is False
    verdict = schema["$defs"]["Verdict"]
    assert verdict["properties"]["label"]["enum"] == ["yes", "no"]
    assert (verdict["properties"]["score"]["minimum"], verdict["properties"]["score"]["maximum"]) == (0, 10)


def test_without_the_capability_no_schema_is_sent() -> None:
    target = Scripted('{"verdict": {"label": "no", "score": 1}}', lacks=("schema",))
    assert predict(Judge, target.lm(), dspy.JSONAdapter(), claim="x").verdict.label == "no"
    assert target.requests[0].schema is None


def test_call_settings_win_over_the_defaults() -> None:
    target = Scripted(CHAT)
    config = {"temperature": 0.9, "top_p": 0.5, "max_tokens": 9, "seed": 11, "stop": ["X"], "top_k": 4}
    predict("question -> answer", target.lm(seed=1, min_p=0.2, top_k=9), config=config, question="x")
    assert target.requests[0].sampling == Sampling(0.9, 0.5, 9, 4, 0.2, 11, ("X",))


def test_n_and_rollouts_become_sample_indices() -> None:
    target = Scripted(CHAT, CHAT, CHAT, CHAT, CHAT)
    lm = target.lm()
    out = predict("question -> answer", lm, config={"n": 3}, question="x")
    assert len(out.completions) == 3
    assert [r.sample for r in target.requests] == [0, 1, 2]
    assert {r.sampling.temperature for r in target.requests} == {0.7}
    predict("question -> answer", lm.copy(rollout_id=2, temperature=1.0), question="x")
    predict("question -> answer", lm, question="x")
    assert [r.sample for r in target.requests[3:]] == [2048, 0]


@pytest.mark.parametrize(
    ("config", "expected"),
    [({"frequency_penalty": 1.0}, "frequency_penalty"), ({"logit_bias": {"1": 1}}, "logit_bias")],
)
def test_what_a_request_cannot_hold_is_refused(config: dict[str, Any], expected: str) -> None:
    target = Scripted()
    with pytest.raises(dspy.LMUnsupportedFeatureError, match=expected):
        predict("question -> answer", target.lm(), config=config, question="x")
    assert target.requests == []


def test_acall_works_from_any_loop() -> None:
    target = Scripted(*[CHAT] * 8)

    async def go() -> list[str]:
        program = dspy.Predict("question -> answer")
        with dspy.context(lm=target.lm(temperature=1.0), adapter=dspy.ChatAdapter()):
            outs = await asyncio.gather(*(program.acall(question=str(i)) for i in range(6)))
            outs.append(await program.acall(question="n", config={"n": 2}))
        return [out.answer for out in outs]

    assert asyncio.run(go()) == ["Lima"] * 7
    assert [r.sample for r in target.requests] == [0] * 6 + [0, 1]


def test_blocking_calls_on_the_process_loop_are_refused() -> None:
    async def go() -> None:
        predict("question -> answer", Scripted(CHAT).lm(), question="x")

    with pytest.raises(dspy.LMError, match="await"):
        event_loop.run(go())


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (TargetUnavailable("down"), dspy.LMError),
        (RequestRefused("maximum context length is 512", "too long"), dspy.ContextWindowExceededError),
        (BudgetExhausted("spent"), dspy.LMError),
    ],
)
def test_errors_keep_their_meaning_and_are_not_retried(raised: Exception, seen: type[Exception]) -> None:
    sent: list[ChatRequest] = []

    async def fail(request: ChatRequest) -> Reply:
        sent.append(request)
        raise raised

    with pytest.raises(seen) as caught:
        predict("question -> answer", as_lm(fail, Scripted()), question="x")
    assert cause(caught.value) is raised
    assert len(sent) == 1
    assert cause(ValueError()) is None
