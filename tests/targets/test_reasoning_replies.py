"""Replies of servers that think, refuse, filter or call tools: what becomes of them in a question."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

import ragc
from ragc.errors import ParseFailure
from ragc.metrics.failures import Failures
from ragc.programs import METHODS
from ragc.programs.runtime import Runtime
from ragc.programs.trace import UnreadableReply
from ragc.reports.failures import group_of
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Usage
from ragc.targets.dspy_lm import DspyTarget
from ragc.testing import ScriptedTarget
from tests.support.server import (
    MODEL,
    WAYS,
    Answer,
    Thinker,
    completion,
    in_order,
    serving,
    thoughts_of,
)
from tests.support.targets import KINDS, Waits, finished, target_of

pytestmark = pytest.mark.usefixtures("only_our_key")

ASK = ChatRequest((Message("user", "Capital of Peru?"),))
JSON = '{"answer": "Lima"}'
kinds = pytest.mark.parametrize("kind", KINDS)


def reply_of(kind: str, answer: Answer, request: ChatRequest = ASK, **options: Any) -> Reply:
    """The reply of a target of `kind` to a server that answers so."""
    with serving(in_order(answer)) as server:
        target = target_of(kind, server.url, Waits(), context_tokens=32768, **options)
        return finished(target, target.complete(request))


@kinds
def test_thinking_tokens_are_those_that_the_server_reports(kind: str) -> None:
    details = {"reasoning_tokens": 25}
    reply = reply_of(
        kind, completion({"content": JSON}, completion_tokens=30, completion_tokens_details=details)
    )
    assert (reply.usage.reasoning, reply.reasoning) == (25, "")


@pytest.mark.parametrize(
    ("message", "text", "thoughts"),
    [
        ({"content": JSON, "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, JSON, "a"),
        ({"content": JSON, "reasoning": {"content": "a"}}, JSON, "a"),
        ({"content": JSON, "thinking_blocks": [{"type": "thinking", "thinking": "a"}]}, JSON, "a"),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "a"}, {"text": "b"}]}, JSON]},
            JSON,
            "a\n\nb",
        ),
        ({"content": [{"type": "reasoning", "summary": []}, {"type": "text", "text": JSON}]}, JSON, ""),
        ({"content": f"<think>b</think>{JSON}", "reasoning_content": "a"}, JSON, "a\n\nb"),
        ({"content": "A\n</think>\nB", "reasoning_content": "a"}, "A\n</think>\nB", "a"),
        ({"content": JSON, "reasoning_content": 7, "reasoning": [[[[[["deep"]]]]]]}, JSON, "deep"),
    ],
)
def test_fields_of_thoughts_are_read(message: dict[str, Any], text: str, thoughts: str) -> None:
    reply = reply_of("vllm", completion(message))
    assert (reply.text, reply.reasoning) == (text, thoughts)


def run(script: Any, *, layout: str = "minimal", **options: Any) -> tuple[Any, ScriptedTarget]:
    """What a plain question comes to, a prediction or the failure, and what was asked."""
    target = ScriptedTarget(script, **options)
    method = next(entry for entry in METHODS if entry.id == "no_retrieval")
    program = method.build(Runtime({"main": target}, {}, store=CallStore(None)), {"layout": layout})
    try:
        return program(question="Capital of Peru?"), target
    except ParseFailure as error:
        return error, target


THOUGHTS_ONLY = Reply("", finish="length", usage=Usage(20, 64), reasoning="Peru, hm")


def test_a_reply_that_ran_out_while_thinking_is_asked_for_once_with_more_room() -> None:
    prediction, target = run([THOUGHTS_ONLY, JSON])
    assert prediction.answer == "Lima"
    first, second = target.requests
    assert second.messages == first.messages
    assert second.sampling.max_tokens >= first.sampling.max_tokens + 2048
    (event,) = prediction.trace
    assert (event.repaired, event.raised_limit) == (True, second.sampling.max_tokens)
    assert event.sent.thoughts == ("Peru, hm", "")
    assert event.to_json()["raised_limit"] == second.sampling.max_tokens
    assert prediction.counters["repairs"] == 1


@pytest.mark.parametrize("layout", ["minimal", "json", "chat", "xml"])
def test_a_server_that_only_thinks_fails_with_its_reason(layout: str) -> None:
    failure, target = run(lambda request: THOUGHTS_ONLY, layout=layout)
    assert isinstance(failure, ParseFailure)
    assert str(failure).startswith("A reply ran out of its 64 tokens while thinking. Set thinking_tokens")
    assert str(failure).endswith(
        "It was asked for again with more room, after 64 tokens had not been enough."
    )
    assert len(target.requests) == 2
    (event,) = failure.events
    assert isinstance(event, UnreadableReply)
    assert event.raised_limit == target.requests[1].sampling.max_tokens
    assert group_of(row(failure)).id == "cut"


def row(failure: ParseFailure) -> dict[str, Any]:
    trace = [event.to_json() for event in failure.events]
    return {"id": "q", "prediction": None, "failure": str(failure), "trace": trace, "scores": {}}


def test_more_room_stays_within_the_context() -> None:
    prediction, target = run([THOUGHTS_ONLY, JSON], context_tokens=1000)
    prompt = sum(target.count_tokens(m.content) for m in target.requests[1].messages)
    assert target.requests[0].sampling.max_tokens < target.requests[1].sampling.max_tokens < 1000 - prompt
    assert prediction.answer == "Lima"
    most = target.requests[0].sampling.max_tokens
    failure, target = run([THOUGHTS_ONLY], context_tokens=most + prompt + 20)
    assert str(failure).startswith("A reply ran out of its 64 tokens while thinking.")
    assert len(target.requests) == 1


def test_a_cut_reply_that_cannot_be_read_is_asked_for_with_more_room() -> None:
    cut = Reply("Let me see [[ ## what", finish="length", usage=Usage(20, 64))
    prediction, target = run([cut, JSON], layout="minimal")
    assert prediction.answer == "Lima"
    assert target.requests[1].messages == target.requests[0].messages


def test_cut_thoughts_without_a_tag_are_no_answer_where_the_target_thinks() -> None:
    cut = Reply("Peru, hm, let me", finish="length", usage=Usage(20, 64))
    target = ScriptedTarget([cut, JSON], capabilities=())
    target.reasoning_tokens = 512  # type: ignore[attr-defined]
    method = next(entry for entry in METHODS if entry.id == "no_retrieval")
    prediction = method.build(Runtime({"main": target}, {}, store=CallStore(None)))(question="Peru?")
    assert (prediction.answer, len(target.requests)) == ("Lima", 2)
    assert prediction.trace[0].sent.thoughts == ("Peru, hm, let me", "")


@pytest.mark.parametrize(
    ("reply", "beginning", "group", "requests"),
    [
        (
            Reply("I cannot.", finish="refusal"),
            'A reply refuses the request. It began "I cannot."',
            "declined",
            1,
        ),
        (Reply("a({})\nb({})", finish="tool_calls"), "A reply calls tools in place of", "called_tools", 2),
        (Reply("", finish="length", usage=Usage(20, 9)), "A reply ran out of its 9 tokens before", "cut", 2),
        (Reply("", reasoning="Hm."), "A reply ends with its thoughts, and no answer", "unreadable", 2),
        (Reply("{]", finish="stop"), "A reply is no JSON", "unreadable", 2),
    ],
)
def test_each_failure_has_its_own_reason_and_group(
    reply: Reply, beginning: str, group: str, requests: int
) -> None:
    failure, target = run(lambda request: reply)
    assert str(failure).startswith(beginning)
    assert len(target.requests) == requests
    assert group_of(row(failure)).id == group
    assert group_of({**row(failure), "failure": "", "prediction": None}).id == group
    assert Failures.among([str(failure)] * 3).reasons[0][1] == 3


@pytest.mark.parametrize("second", [JSON, THOUGHTS_ONLY])
def test_a_call_with_more_room_is_replayed_as_it_was(second: Any) -> None:
    store, target = CallStore(None), ScriptedTarget([THOUGHTS_ONLY, second])
    method = next(entry for entry in METHODS if entry.id == "no_retrieval")
    seen = []
    for _ in range(2):
        program = method.build(Runtime({"main": target}, {}, store=store))
        try:
            prediction = program(question="Capital of Peru?")
            events, counters = prediction.trace, prediction.counters
        except ParseFailure as error:
            events, counters = error.events, error.counters
        named = ("lm_calls", "repairs", "thinking_tokens", "prompt_tokens", "completion_tokens")
        seen.append(([event.to_json() for event in events], [counters.get(name, 0) for name in named]))
    assert seen[0] == seen[1]
    assert len(target.requests) == 2


@pytest.mark.parametrize("way", WAYS)
def test_thoughts_are_taken_off_the_replies_of_a_language_model_of_dspy(way: Any) -> None:
    with serving(Thinker(lambda request: JSON, way, 20)) as server:
        lm = dspy.LM(f"openai/{MODEL}", api_base=server.url, api_key="sk-test", cache=False)
        target = DspyTarget(lm)
        reply = finished(target, target.complete(ASK))
    assert reply.text == JSON
    if way != "parts":  # DSPy drops the thoughts of those
        assert reply.reasoning == thoughts_of(20)
        assert reply.usage.reasoning > 0


@pytest.mark.parametrize("way", ["reasoning_content", "tagged", "untagged"])
def test_thoughts_are_no_output_of_a_module_of_ones_own(way: Any) -> None:
    answer = "[[ ## answer ## ]]\nLima\n\n[[ ## completed ## ]]"
    with serving(Thinker(lambda request: answer, way, 20)) as server:
        lm = dspy.LM(f"openai/{MODEL}", api_base=server.url, api_key="sk-test", cache=False)
        program = ragc.program(dspy.Predict("question -> answer"), main=lm, store=False)
        prediction = program(question="Capital of Peru?")
    assert prediction.answer == "Lima"
