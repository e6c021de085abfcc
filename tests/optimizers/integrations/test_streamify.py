"""`dspy.streamify` on programs of ours: text while the model still writes, by scripted models that stream."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.streaming import StatusMessage, StatusMessageProvider, StreamListener, StreamResponse
from hypothesis import given, settings
from hypothesis import strategies as st

import ragc
from ragc.programs.base import RagProgram
from ragc.programs.calls.layouts import adapter
from ragc.programs.calls.streaming import text_so_far
from ragc.programs.knobs import LAYOUTS
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer
from ragc.testing import ListSource, ScriptedTarget
from tests.examples import examples

QUESTION = "Which exception ends an iterator?"
ANSWER = 'StopIteration \\ "raised" [[ by < it {éa😀}'
PASSAGES = [
    Passage("stop", "Iterators", "StopIteration ends an iterator."),
    Passage("key", "Mappings", "KeyError is raised where a key is missing."),
]


def laid_out(layout: str, signature: Any = ShortAnswer, **outputs: Any) -> str:
    text: str = adapter(layout).format_assistant_message_content(signature, outputs)
    return text


class Silent:
    """The engine of callers without a loop, which nobody here is."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        raise AssertionError("a program awaits its model")

    stream = complete


class StreamingEngine:
    """An engine of DSPy's kind that gives the `replies` in parts of `size` characters, one after another.

    After the first parts, which hold the beginning of the answer, it waits until `seen` is set.
    """

    supports_function_calling = supports_reasoning = supports_response_schema = False
    supported_params = frozenset({"temperature", "max_tokens", "top_p"})

    def __init__(self, replies: Sequence[str], size: int, hold_at: int = 0) -> None:
        self.replies, self.size, self.hold_at = list(replies), size, hold_at
        self.seen, self.waited = threading.Event(), False

    def __deepcopy__(self, memo: object) -> StreamingEngine:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """The next reply, whole."""
        return lm15.Response(
            id=None, model="scripted", message=lm15.Message.assistant(self.replies.pop(0)),
            finish_reason="stop", usage=lm15.Usage(input_tokens=7, output_tokens=3),
        )  # fmt: skip

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        """The next reply, in parts."""
        text = self.replies.pop(0)
        yield lm15.StreamStartEvent(id="1", model="scripted")
        for at in range(0, len(text), self.size):
            if self.hold_at and at >= self.hold_at and not self.waited:
                self.waited = await asyncio.to_thread(self.seen.wait, 20)
            yield lm15.StreamDeltaEvent(delta=lm15.TextDelta(text=text[at : at + self.size], part_index=0))
        yield lm15.StreamEndEvent(finish_reason="stop", usage=lm15.Usage(input_tokens=7, output_tokens=3))


def build(engine: Any, name: str = "vanilla", **knobs: Any) -> RagProgram:
    lm = dspy.LM("scripted/model", engine=Silent(), async_engine=engine, cache=False)
    return ragc.program(name, main=lm, local=ListSource(PASSAGES), store=False, **knobs)


def collect(
    streamed: Callable[..., Any], seen: threading.Event | None = None, question: str = QUESTION
) -> list[Any]:
    """All that comes; `seen` is set at the first chunk."""

    async def gather() -> list[Any]:
        items = []
        async for item in streamed(question=question):
            items.append(item)
            if seen is not None and not isinstance(item, dspy.Prediction):
                seen.set()
        return items

    return asyncio.run(asyncio.wait_for(gather(), 60))


def chunks_of(items: Sequence[Any], field: str = "answer") -> list[StreamResponse]:
    return [i for i in items if isinstance(i, StreamResponse) and i.signature_field_name == field]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("awaited", [True, False])
def test_the_answer_comes_while_the_model_writes(layout: str, awaited: bool) -> None:
    reply = laid_out(layout, answer=ANSWER)
    engine = StreamingEngine([reply], 2, hold_at=len(reply) * 3 // 4)
    streamed = dspy.streamify(
        build(engine, layout=layout),
        stream_listeners=[StreamListener("answer")],
        is_async_program=awaited,
    )
    *chunks, prediction = collect(streamed, engine.seen)
    assert engine.waited, "the first chunk came before the model went on"
    assert prediction.answer == "".join(chunk.chunk for chunk in chunks) == ANSWER
    assert len(chunks) > 5
    assert [chunk.is_last_chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert {chunk.predict_name for chunk in chunks} == {"answer"}


def test_it_streams_to_a_caller_without_a_loop() -> None:
    engine = StreamingEngine([laid_out("minimal", answer="forty-two")], 3)
    streamed = dspy.streamify(
        build(engine), stream_listeners=[StreamListener("answer")], async_streaming=False
    )
    *chunks, prediction = list(streamed(question=QUESTION))
    assert "".join(chunk.chunk for chunk in chunks) == prediction.answer == "forty-two"


def test_a_reasoned_answer_streams_both_outputs_in_turn() -> None:
    reply = json.dumps({"reasoning": 'Not "answer": x.', "answer": "StopIteration"})
    engine = StreamingEngine([reply], 4)
    listeners = [StreamListener("answer"), StreamListener("reasoning")]
    items = collect(dspy.streamify(build(engine, cot=True), stream_listeners=listeners))
    assert "".join(chunk.chunk for chunk in chunks_of(items, "reasoning")) == 'Not "answer": x.'
    assert "".join(chunk.chunk for chunk in chunks_of(items)) == "StopIteration" == items[-1].answer


def test_without_listeners_the_parts_of_the_reply_are_given() -> None:
    reply = laid_out("minimal", answer="forty-two")
    program = build(StreamingEngine([reply], 3))
    *chunks, prediction = collect(dspy.streamify(program))
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == reply
    assert {chunk.predict_id for chunk in chunks} == {id(program.predictors()[0])}
    assert prediction.answer == "forty-two"


def test_what_no_listener_follows_is_not_shown() -> None:
    replies = [json.dumps({"order": [2, 1]}), laid_out("minimal", answer="StopIteration")]
    program = build(StreamingEngine(replies, 3), "rankgpt")
    final = dict(program.named_predictors())["answer"]
    listener = StreamListener("answer", predict=final, predict_name="the end")
    *chunks, prediction = collect(dspy.streamify(program, stream_listeners=[listener]))
    assert "".join(chunk.chunk for chunk in chunks) == "StopIteration" == prediction.answer
    assert {chunk.predict_name for chunk in chunks} == {"the end"}


@pytest.mark.parametrize("replayed", [False, True])
def test_what_comes_whole_gives_the_prediction_alone(replayed: bool) -> None:
    reply = laid_out("minimal", answer="ours")
    program = (
        build(StreamingEngine([reply], 3))
        if replayed
        else ragc.program("vanilla", main=ScriptedTarget([reply]), local=ListSource(PASSAGES), store=False)
    )
    if replayed:
        program(question=QUESTION)
    streamed = dspy.streamify(
        program,
        stream_listeners=[StreamListener("answer")],
        include_final_prediction_in_output_stream=False,
    )
    (prediction,) = collect(streamed)
    assert prediction.answer == "ours"


def test_a_listener_follows_one_reply_or_where_it_may_be_reused_every_one() -> None:
    replies = [laid_out("minimal", answer=text) for text in ("one", "two", "three", "four")]
    for reuse, wanted in ((False, ["one", ""]), (True, ["three", "four"])):
        program = build(StreamingEngine(replies[:2] if not reuse else replies[2:], 2), temperature=0.5)
        listener = StreamListener("answer", allow_reuse=reuse)
        streamed = dspy.streamify(program, stream_listeners=[listener])
        got = []
        for number in range(2):
            items = collect(streamed, question=f"Question {number}?")
            got.append("".join(chunk.chunk for chunk in chunks_of(items)))
        assert got == wanted


def test_a_reply_that_is_asked_for_again_goes_on_where_the_stream_was() -> None:
    broken = '{"reasoning": "It is an exception", "sure": true}'
    engine = StreamingEngine([broken, json.dumps({"reasoning": "It is an exception.", "answer": "Stop"})], 3)
    listeners = [StreamListener("answer"), StreamListener("reasoning")]
    items = collect(dspy.streamify(build(engine, cot=True), stream_listeners=listeners))
    assert not engine.replies, "both replies were used"
    assert "".join(chunk.chunk for chunk in chunks_of(items, "reasoning")) == "It is an exception."
    assert chunks_of(items) == [], "no part of the answer was streamed before the reply could not be read"
    assert items[-1].answer == "Stop"


def test_status_messages_of_modules_come() -> None:
    class Told(StatusMessageProvider):
        def module_start_status_message(self, instance: Any, inputs: dict[str, Any]) -> str:
            return f"starts {getattr(instance, 'name', type(instance).__name__)}"

    for awaited in (True, False):
        streamed = dspy.streamify(
            build(StreamingEngine([laid_out("minimal", answer="ours")], 3)),
            status_message_provider=Told(),
            stream_listeners=[StreamListener("answer")],
            is_async_program=awaited,
        )
        items = collect(streamed)
        notes = [item.message for item in items if isinstance(item, StatusMessage)]
        assert notes[-1] == "starts answer"
        assert len(notes) == 2
        assert items[-1].answer == "ours"


def test_a_caller_may_leave_early() -> None:
    async def first() -> str:
        engine = StreamingEngine([laid_out("minimal", answer="a long answer " * 40)], 2)
        streamed = dspy.streamify(build(engine), stream_listeners=[StreamListener("answer")])
        stream = streamed(question=QUESTION)
        try:
            async for item in stream:
                return str(item.chunk)
        finally:
            await stream.aclose()
        return ""

    for _ in range(examples(10)):
        assert asyncio.run(asyncio.wait_for(first(), 60))
    gc.collect()  # a delivery that nobody awaited would be reported now


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(60), deadline=None)
@given(
    answer=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=30),
    size=st.integers(1, 7),
)
def test_the_text_so_far_only_grows_and_ends_as_it_is_read(layout: str, answer: str, size: int) -> None:
    reply = laid_out(layout, answer=answer)
    parts = [text_so_far(layout, "answer", reply[:end]) for end in (*range(0, len(reply), size), len(reply))]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(parts))
    if layout in ("minimal", "json"):
        assert parts[-1] == answer
    elif "[[ ##" not in answer:
        assert parts[-1] == answer.strip()


THOUGHT = 'zebra: {"answer": "zebra"} or <answer>zebra</answer>'
THINKING = {"tagged": "<think>{}</think>\n\n{}", "untagged": "{}\n</think>\n\n{}"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["tagged", "untagged"])
@pytest.mark.parametrize("listened", [True, False])
def test_no_thought_is_streamed(layout: str, way: str, listened: bool) -> None:
    reply = laid_out(layout, answer=ANSWER)
    engine = StreamingEngine([THINKING[way].format(THOUGHT, reply)], 3)
    listeners = {"stream_listeners": [StreamListener("answer")]} if listened else {}
    *chunks, prediction = collect(dspy.streamify(build(engine, layout=layout), **listeners))
    assert prediction.answer == ANSWER
    if listened:
        assert len(chunks) > 5
        assert "".join(chunk.chunk for chunk in chunks) == ANSWER
    else:
        parts = [chunk.choices[0].delta.content for chunk in chunks]
        assert "".join(parts).strip() == reply.strip()


def test_a_reply_that_begins_with_prose_is_streamed_once_it_is_whole() -> None:
    reply = f"So it is.\n{laid_out('minimal', answer='forty-two')}"
    streamed = dspy.streamify(build(StreamingEngine([reply], 3)), stream_listeners=[StreamListener("answer")])
    *chunks, prediction = collect(streamed)
    assert "".join(chunk.chunk for chunk in chunks) == prediction.answer == "forty-two"
