"""Replies of servers that lie, pour or talk nonsense: a counted failure or another try, never a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import TargetError, TargetStopped, TargetUnavailable
from ragc.metrics import get
from ragc.metrics.base import Scorer
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.recipe import Budget
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, TokenLogprob, Usage
from ragc.targets.gateway import REPLY, Gateway, request_key
from ragc.targets.retry import Again
from ragc.targets.wire import Where, error_text, read_json, read_reply
from ragc.task.answering import Row, evaluate
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget
from tests.examples import cases, examples, thorough
from tests.support.server import Answer, build_answer, serving
from tests.support.targets import KINDS, Waits, finished, target_of
from tests.targets.conftest import only_our_key

__all__ = ["only_our_key"]
pytestmark = pytest.mark.usefixtures("only_our_key")

ASK = ChatRequest((Message("user", "Capital of Peru?"),))
WHERE = Where("e", "m")
QUESTIONS = tuple(Question(f"q{n}", f"What is thing {n}?", ("x",)) for n in range(3))
MANY = 100_000
"""Far more brackets than any parser follows."""


def completion(**more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Lima"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {**whole, "usage": usage, **more}


def choosing(**more: Any) -> dict[str, Any]:
    return completion(choices=[{**completion()["choices"][0], **more}])


def saying(content: Any) -> dict[str, Any]:
    return choosing(message={"role": "assistant", "content": content})


def fetch_reply(kind: str, answer: Answer, **options: Any) -> tuple[Reply, int]:
    """The reply of a target of `kind` to whom a server always gives `answer`, and the tries that took."""
    with serving(lambda _: answer) as server:
        target = target_of(kind, server.url, Waits(), tries=2, **options)
        try:
            return finished(target, target.complete(ASK)), len(server.prompts)
        except TargetStopped:
            raise
        except TargetUnavailable as error:
            if len(server.prompts) != 2 or "\n" in str(error) or len(str(error)) > 600:
                raise AssertionError(f"no sentence after two tries, but {len(server.prompts)}") from error
            raise


BROKEN: dict[str, Any] = {
    "no object": [1, 2],
    "a number": 7,
    "choices a number": completion(choices=5),
    "choices a text": completion(choices="Lima"),
    "choices an object": completion(choices={"0": {}}),
    "choice null": completion(choices=[None]),
    "choice a list": completion(choices=[["Lima"]]),
    "message a list": choosing(message=["Lima"]),
    "message a text": choosing(message="Lima"),
    "content a number": saying(3.5),
    "content parts of numbers": saying([{"type": "text", "text": 3}]),
}


@thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", cases(BROKEN, 8))
def test_a_body_of_another_shape_is_tried_again_and_then_one_sentence(kind: str, body: str) -> None:
    try:
        reply, _ = fetch_reply(kind, Answer(json.dumps(BROKEN[body]).encode()))
    except TargetUnavailable:
        return
    assert kind == "hosted"  # LiteLLM makes a text of some of them
    assert isinstance(reply.text, str)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"[" * MANY,
        b'{"choices":' * MANY,
        b'{"choices": [{"message": {"content": "a\xff\xfe"}}]}',
        b"\x00" * 1000,
        b'{"choices": NaN}',
        b'{"id": ' + b"9" * 10_000 + b"}",
        b"\xef\xbb\xbf",
    ],
    ids=["deep lists", "deep objects", "no UTF-8", "NUL", "NaN", "a huge number", "a mark only"],
)
def test_bytes_that_are_no_json_are_tried_again_and_then_one_sentence(kind: str, body: bytes) -> None:
    with pytest.raises(TargetUnavailable, match="tried 2 times"):
        fetch_reply(kind, Answer(body))


LIES: dict[str, Any] = {
    "no usage": None,
    "a list": [],
    "a text": "many",
    "a number": 5,
    "empty": {},
    "negative": {"prompt_tokens": -900, "completion_tokens": -(10**9), "total_tokens": -1},
    "booleans": {"prompt_tokens": True, "completion_tokens": False},
    "fractions": {"prompt_tokens": 1.5, "completion_tokens": 0.1},
    "huge": {"prompt_tokens": 10**30, "completion_tokens": 1e300},
    "texts": {"prompt_tokens": "20", "completion_tokens": None},
    "lists": {"prompt_tokens": [1], "completion_tokens": {"n": 1}},
    "details a list": {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": [1]},
    "more cached than read": {
        "prompt_tokens": 20,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 99},
    },
    "negative cached": {
        "prompt_tokens": 20,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": -7},
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("usage", LIES.values(), ids=list(LIES))
def test_usage_that_is_no_count_never_lowers_what_a_request_cost(usage: Any, kind: str) -> None:
    try:
        reply, _ = fetch_reply(kind, Answer(json.dumps(completion(usage=usage)).encode()))
    except TargetUnavailable:
        assert kind == "hosted"
        return
    assert reply.text == "Lima"
    assert reply.usage.prompt >= 0 <= reply.usage.completion
    assert 0 <= reply.usd < 1
    assert kind == "hosted" or reply.usage in (Usage(20, 3), Usage(6, 2))  # as the server says, or a bound


@pytest.mark.parametrize(
    "logprobs",
    [7, {"content": 7}, {"content": ["a"]}, {"content": [{"token": "a", "logprob": "b"}]}, {"content": [{}]}],
)
def test_logprobs_of_another_shape_are_tried_again_and_then_one_sentence(logprobs: Any) -> None:
    body = json.dumps(choosing(logprobs=logprobs)).encode()
    wanted = ChatRequest(ASK.messages, logprobs=True)
    with serving(lambda _: Answer(body)) as server:
        target = target_of("vllm", server.url, Waits(), tries=2)
        with pytest.raises(Exception, match=r"no chat completion|sent no logprobs"):
            finished(target, target.complete(wanted))


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_surrogate_pair_is_replaced_and_can_be_stored(kind: str, tmp_path: Path) -> None:
    """Escaped in JSON it is ASCII on the wire, and no text that UTF-8 can hold."""
    body = json.dumps(saying("L\ud800ima \ud83d\ude00")).encode()
    try:
        reply, _ = fetch_reply(kind, Answer(body))
    except TargetUnavailable:
        assert kind == "hosted"
        return
    assert reply.text == "L\ufffdima \U0001f600"
    CallStore(tmp_path).put("k", REPLY.dump_json(reply).decode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_prompt_and_no_key_elsewhere(status: int) -> None:
    with serving(lambda request: build_answer("Lima")) as elsewhere:
        headers = (("Location", f"{elsewhere.url}/chat/completions"),)
        with pytest.raises(TargetStopped, match=rf"answered {status}, a redirect"):
            fetch_reply("vllm", Answer(b"", status=status, headers=headers))
        assert not elsewhere.prompts


# What a model wrote, read into a signature.

TEXTS = {
    "deep lists": "[" * 450,
    "deep lists in an object": '{"answer": ' + "[" * 450,
    "deeper than any stack": '{"answer": ' * MANY,
    "deep parentheses": "(" * MANY,
    "a million quotes": '"' * 1_000_000,
    "NUL": "\x00\x00",
    "Infinity": '{"answer": Infinity}',
    "markers": "[[ ## answer ## ]]" * 5000,
    "tags": "<answer>" * 30_000,
    "nothing": "",
}


def questioned(target: ScriptedTarget, store: CallStore, layout: str, budget: Any = None) -> tuple[Row, ...]:
    program = method("no_retrieval").build(
        Runtime({"main": target}, store=store, budget=budget), {"layout": layout}
    )
    scorer = Scorer(tuple(map(get, ("em", "tokens", "lm_calls", "usd", "searches"))))

    async def go() -> tuple[Row, ...]:
        return await evaluate(program, QUESTIONS, scorer, limit=asyncio.Semaphore(3))

    return event_loop.run(go())


@thorough
@pytest.mark.parametrize("layout", ["minimal", "chat", "xml"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_a_reply_that_cannot_be_read_is_a_failure_that_is_counted_and_replayed_alike(
    layout: str, text: str, tmp_path: Path
) -> None:
    def script(request: ChatRequest) -> Reply:
        return Reply(text, usage=Usage(100, 7), usd=0.25)

    budget = BudgetFile(None, Budget())
    first = questioned(ScriptedTarget(script, capabilities=()), CallStore(tmp_path), layout, budget)
    again = questioned(ScriptedTarget([], capabilities=()), CallStore(tmp_path), layout)
    for row in (*first, *again):
        assert row.failure or layout != "minimal"
        if row.failure:
            assert row.prediction is None
            assert row.scores == {"em": 0, "tokens": 214, "lm_calls": 2, "usd": 0.5, "searches": 0}
        json.dumps(row.to_json(), ensure_ascii=False).encode()
    assert [row.failure for row in first] == [row.failure for row in again]
    assert [row.scores for row in first] == [row.scores for row in again]
    assert sum(row.counters["tokens"] for row in first) == budget.spent.tokens


def test_a_repair_that_does_not_fit_the_context_is_not_sent() -> None:
    reply = "{" + "word " * 900
    long = ScriptedTarget(lambda request: reply, capabilities=(), context_tokens=900)
    rows = questioned(long, CallStore(None), "minimal")
    assert all(row.failure for row in rows)
    assert [row.counters["lm_calls"] for row in rows] == [1] * 3


STORED = {
    "deep": "[" * MANY,
    "a list": "[]",
    "no text": '{"text":1,"finish":"stop","usage":{"prompt":1},"usd":0.0,"logprobs":[]}',
    "negative": '{"text":"a","finish":"stop","usage":{"prompt":-9},"usd":0.0,"logprobs":[]}',
    "NaN": '{"text":"a","finish":"stop","usage":{"prompt":1},"usd":NaN,"logprobs":[]}',
    "huge": '{"text":"a","finish":"stop","usage":{"prompt":1},"usd":1e999,"logprobs":[]}',
    "wide": '{"text":"a","finish":"stop","usage":[1,1,0,4,5],"usd":0,"logprobs":[]}',
    "half a pair": '{"text":"\\ud800","finish":"stop","usage":{"prompt":1},"usd":0,"logprobs":[]}',
    "logprobs": '{"text":"a","finish":"stop","usage":{"prompt":1},"usd":0,"logprobs":[["a","b"]]}',
}


@pytest.mark.parametrize("row", STORED.values(), ids=list(STORED))
def test_a_stored_row_that_is_no_reply_counts_as_absent(row: str, tmp_path: Path) -> None:
    target = ScriptedTarget(["Lima"])
    store = CallStore(tmp_path)
    store.put(request_key(target, ASK), row)
    with counting(Counters()) as spent:
        assert event_loop.run(Gateway(store).complete(target, ASK)).text == "Lima"
    assert spent.sent == 1
    assert spent.tokens > 0
    assert event_loop.run(Gateway(CallStore(tmp_path)).complete(target, ASK)).text == "Lima"


@pytest.mark.parametrize(
    "reply",
    [
        Reply("Lima", usage=Usage(-5, -1_000_000)),
        Reply("Lima", usage=Usage(10**40, 3)),
        Reply("Lima", usd=float("nan")),
        Reply("Lima", usd=-5.0),
        Reply("L\ud800ima"),
        Reply("Lima", finish="bored"),  # type: ignore[arg-type]
        Reply("Lima", logprobs=(TokenLogprob("Lima", 0.5), TokenLogprob("\ud800", float("-inf")))),
        Reply("Lima", usage=Usage(3, 2, 9, 7), reasoning="L\ud800ima?"),
    ],
)
def test_no_target_lowers_a_budget_or_breaks_the_store(reply: Reply, tmp_path: Path) -> None:
    budget, target = BudgetFile(None, Budget()), ScriptedTarget([reply])
    gateway = Gateway(CallStore(tmp_path), budget)
    try:
        safe_reply = event_loop.run(gateway.complete(target, ASK))
    except TargetUnavailable:
        assert budget.spent.tokens > 0
        return
    assert event_loop.run(Gateway(CallStore(tmp_path)).complete(target, ASK)) == safe_reply
    assert budget.spent.tokens >= 0 <= budget.spent.usd
    assert safe_reply.usage.prompt >= 0 <= safe_reply.usage.completion
    assert "Lima".replace("L", "") in safe_reply.text.replace("L\ufffd", "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "usage",
                    "prompt_tokens",
                    "logprobs",
                    "timings",
                    "index",
                    "text",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(value=JSON, whole=st.booleans(), measured=st.booleans())
def test_any_value_as_a_body_is_a_reply_or_one_error(value: Any, whole: bool, measured: bool) -> None:
    body = choosing(**value) if whole and isinstance(value, dict) else value
    request = ChatRequest(ASK.messages, logprobs=measured, prompt_logprobs=measured)
    try:
        reply = read_reply(body, request, len, WHERE)
    except TargetError:
        return
    except Again:
        return
    reply.text.encode()
    assert min(reply.usage.prompt, reply.usage.completion, reply.usage.cached) >= 0
    assert REPLY.validate_json(REPLY.dump_json(reply, exclude_defaults=True)) == reply


@settings(max_examples=examples(300))
@given(content=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_as_a_body_are_a_value_or_one_error(content: bytes) -> None:
    with contextlib.suppress(Again, TargetError):
        read_reply(read_json(content, "application/json"), ASK, len, WHERE)
    assert isinstance(error_text(content)[0], str)
