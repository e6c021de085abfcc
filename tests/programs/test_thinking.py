"""Every method before a server that thinks: as before the same server without thoughts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.programs import METHODS, Method
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.prompt import TypedPrompt
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Sampling, Target
from ragc.testing import ListSource, SchemaReplies
from tests.contracts.test_programs import FOUND, QUESTION
from tests.examples import cases
from tests.support.server import SECRET, WAYS, Asked, ScriptedServer, Thinker, serving
from tests.support.targets import target_of


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


KINDS = ("vllm", "hosted")
LENGTHS = (20, 300, 2000)


class Replies:
    """What fits each request that a typed prompt makes, in its layout, by the messages of the request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._by_messages: dict[str, str] = {}
        chat_request = TypedPrompt.chat_request

        def noting(prompt: TypedPrompt, messages: Any, sampling: Sampling, sample: int) -> ChatRequest:
            request = chat_request(prompt, messages, sampling, sample)
            outputs = SchemaReplies().example(reply_schema(prompt.signature))
            layout = prompt.layout
            spoken = json.dumps(outputs)
            if layout not in JSON_LAYOUTS:
                spoken = adapter(layout).format_assistant_message_content(prompt.signature, outputs)
            self._by_messages[_key([m._asdict() for m in request.messages])] = spoken
            return request

        monkeypatch.setattr(TypedPrompt, "chat_request", noting)

    def __call__(self, request: Asked) -> str:
        return self._by_messages[_key(request.body["messages"])]


def _key(messages: Any) -> str:
    return json.dumps([[message["role"], message["content"]] for message in messages])


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Replies:
    return Replies(monkeypatch)


def options_of(*, enforced: bool) -> Mapping[str, Any]:
    return {"context_tokens": 32768, **({} if enforced else {"lacks": ["schema"]})}


async def _no_wait(seconds: float) -> None:
    return None


def answered(server: ScriptedServer, entry: Method, kind: str, enforced: bool, **knobs: Any) -> Any:
    """The prediction of `entry` for a question, by a target of `kind` at `server`."""
    target: Target = target_of(kind, server.url, _no_wait, **options_of(enforced=enforced))
    names = {"local", "web", *(name for method in METHODS for name in method.sources)}
    roles: dict[str, Any] = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    runtime = Runtime(roles, dict.fromkeys(names, ListSource(FOUND)), store=CallStore(None))
    try:
        return entry.build(runtime, knobs)(question=QUESTION)
    finally:
        event_loop.run(target.aclose())


def steps(prediction: Any) -> list[dict[str, Any]]:
    """The trace without what thoughts cost."""
    events = [dict(event.to_json()) for event in prediction.trace]
    return [{name: value for name, value in event.items() if "tokens" not in name} for event in events]


def counters_of(prediction: Any) -> dict[str, float]:
    """The counters without those that thoughts add to, and without time."""
    grows = {"completion_tokens", "tokens", "usd", "latency"}
    return {
        name: n
        for name, n in prediction.counters.items()
        if not (name in grows or name.endswith("_generated"))
    }


def listed() -> Iterator[Any]:
    """Each method with each way and kind; layouts, schemas and lengths take turns."""
    turn = 0
    for at, entry in enumerate(METHODS):
        for way in WAYS:
            for kind in KINDS[: 1 if way == "parts" else 2]:  # LiteLLM reads no content in parts
                layout, enforced = LAYOUTS[turn % len(LAYOUTS)], (turn // len(LAYOUTS) + at) % 2 == 0
                yield pytest.param(
                    entry, way, kind, layout, enforced, LENGTHS[turn % len(LENGTHS)],
                    id=f"{entry.id}-{way}-{kind}-{layout}-{'schema' if enforced else 'free'}",
                )  # fmt: skip
                turn += 1


@pytest.mark.parametrize(("entry", "way", "kind", "layout", "enforced", "tokens"), cases(listed(), 24))
def test_thoughts_change_no_answer(
    replies: Replies, entry: Method, way: Any, kind: str, layout: str, enforced: bool, tokens: int
) -> None:
    with serving(Thinker(replies, tokens=0)) as server:
        expected = answered(server, entry, kind, enforced, layout=layout)
    with serving(Thinker(replies, way, tokens)) as server:
        prediction = answered(server, entry, kind, enforced, layout=layout)
        sent = json.dumps(server.bodies)
    assert prediction.answer == expected.answer
    assert steps(prediction) == steps(expected)
    assert SECRET not in sent
    assert SECRET not in json.dumps([prediction.answer, steps(prediction)])
    counted, plain = counters_of(prediction), counters_of(expected)
    assert counted.pop("thinking_tokens") > 0
    assert counted == plain
    thoughts = [
        thought
        for event in prediction.trace
        if getattr(event, "sent", None)
        for thought in event.sent.thoughts
    ]
    assert thoughts
    assert all(SECRET in thought for thought in thoughts)


TOLD_APART = [way for way in WAYS if way != "untagged"]
"""Ways in which thoughts that were cut can be told from an answer, whatever is known of the model."""


@pytest.mark.parametrize(
    ("entry", "way"),
    cases([(entry, TOLD_APART[at % len(TOLD_APART)]) for at, entry in enumerate(METHODS)], 5),
)
def test_thoughts_that_take_all_tokens_cost_one_more_call_each(
    replies: Replies, entry: Method, way: Any
) -> None:
    with serving(Thinker(replies, tokens=0)) as server:
        expected = answered(server, entry, "vllm", enforced=True)
    with serving(Thinker(replies, way, 1500, limit=True)) as server:
        prediction = answered(server, entry, "vllm", enforced=True)
    assert prediction.answer == expected.answer
    calls = [event for event in prediction.trace if isinstance(event, Call)]
    assert len(calls) == len([event for event in expected.trace if isinstance(event, Call)])
    assert all(event.repaired for event in calls if event.raised_limit)
    assert prediction.counters["repairs"] == len([event for event in calls if event.raised_limit]) > 0
    assert prediction.counters["lm_calls"] == expected.counters["lm_calls"] + prediction.counters["repairs"]
    assert SECRET not in json.dumps([prediction.answer, server.bodies])
