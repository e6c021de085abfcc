"""Streams for `dspy.streamify`: the part of a reply that a model has written so far.

    target ─► `take`, in the target's thread ─► a text output so far ─► the caller's loop ─► dspy.streamify

DSPy's listeners read replies in the layout of DSPy's present adapter; ours come in the layout of their call.
So the text of an output is read here, and sent to listeners as DSPy's `StreamResponse`. Without listeners the
parts of all replies are sent as they come, as DSPy does. Cached replies, and replies that a target returns
whole, show nothing before the prediction. The reasoning of a model is never shown; a reply that begins with
prose, which may be reasoning, is shown once it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import unescape

import anyio
import dspy
from dspy.clients.engines.streaming import EngineChunk
from dspy.streaming import StreamResponse
from pydantic_core import from_json

from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.targets.base import parts_taker
from ragc.targets.gateway import GatewayReply
from ragc.targets.reasoning import AnswerParts

_LEFT = (anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What a stream raises that nobody reads any more."""


class CallerStream:
    """DSPy's `stream` on `loop`; accepts items in any thread, and never waits."""

    def __init__(self, stream: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._stream, self._loop = stream, loop
        self._waiting: set[asyncio.Task[None]] = set()

    def post(self, item: Any) -> None:
        """Sends `item`, after all earlier ones. It is lost if the reader is gone."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._put, item)

    async def send(self, item: Any) -> None:
        """Sends `item` as `post` does; DSPy uses it for its status messages."""
        self.post(item)

    def _put(self, item: Any) -> None:
        """Puts `item` into the stream, where it waits after earlier items if the stream is full."""
        task = self._loop.create_task(self._deliver(item))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _deliver(self, item: Any) -> None:
        with contextlib.suppress(*_LEFT):
            await self._stream.send(item)


@contextlib.contextmanager
def reaching_caller() -> Iterator[None]:
    """Lets the process's loop send to DSPy's stream until exit; entered where the caller waits.

    The caller is on the stream's loop, or in a thread that this loop waits for. Otherwise nothing is
    streamed.
    """
    stream = dspy.settings.send_stream
    if stream is None or isinstance(stream, CallerStream):
        yield
        return
    loop = _loop_of_caller()
    with dspy.context(send_stream=None if loop is None else CallerStream(stream, loop)):
        yield


def _loop_of_caller() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    with contextlib.suppress(RuntimeError):  # no thread of anyio
        return anyio.from_thread.run_sync(asyncio.get_running_loop)
    return None


class ReplyStream:
    """One reply of `call`, shown to its listeners as it grows; without any, to the caller as it is."""

    def __init__(
        self, call: Any, stream: CallerStream, listeners: list[Any], model: str, layout: str
    ) -> None:
        self._call, self._stream, self._model, self._layout = call, stream, model, layout
        self._listeners, self._raw = listeners, ""
        self._shown: dict[int, str] = {}
        outputs = [f"<{name}>" for name in call.signature.output_fields] if layout == "xml" else []
        self._answer = AnswerParts("".join(outputs))

    async def watch(self, reply: Awaitable[GatewayReply]) -> GatewayReply:
        """Awaits `reply` and takes its parts as they arrive."""
        token = parts_taker.set(self.take)
        try:
            answer = await reply
        finally:
            parts_taker.reset(token)
        if self._answer.holds:
            self._show_part(answer.reply.text)
        return answer

    def take(self, part: str) -> None:
        """Shows what `part`, the next one of the reply, adds. Called in one thread at a time."""
        self._show_part(self._answer.feed(part))

    def _show_part(self, part: str) -> None:
        """Shows what `part` adds to the reply, which is without reasoning."""
        if not part:
            return
        self._raw += part
        if not self._listeners:
            choice = EngineChunk(index=0, delta=EngineChunk(content=part), finish_reason=None)
            self._stream.post(
                EngineChunk(id=None, model=self._model, predict_id=id(self._call), choices=[choice])
            )
        for listener in self._listeners:
            text = text_so_far(self._layout, listener.signature_field_name, self._raw)
            if text and self._claim(listener):
                self._show(listener, text)

    def finish(self, outputs: Mapping[str, Any]) -> None:
        """Shows the rest of the begun outputs, once all `outputs` are parsed."""
        for listener in self._listeners:
            if id(listener) in self._shown:
                text = outputs.get(listener.signature_field_name)
                self._show(listener, text if isinstance(text, str) else "", last=True)
                listener.stream_end = True

    def _claim(self, listener: Any) -> bool:
        """Returns whether `listener` follows this reply: its first one, unless it may be reused."""
        if id(listener) not in self._shown:
            if listener.stream_start and not (listener.stream_end and listener.allow_reuse):
                return False
            listener.stream_start, listener.stream_end = True, False
            self._shown[id(listener)] = ""
        return True

    def _show(self, listener: Any, text: str, *, last: bool = False) -> None:
        """Posts what `text`, the output so far, has beyond what was shown; none if its beginning changed."""
        shown = self._shown[id(listener)]
        more = text.removeprefix(shown) if text.startswith(shown) else ""
        if not (more or last):
            return
        self._shown[id(listener)] = shown + more
        name = listener.predict_name or self._call.name
        self._stream.post(StreamResponse(name, listener.signature_field_name, more, is_last_chunk=last))


def stream_of(call: Any, model: str, layout: str) -> ReplyStream | None:
    """Returns the stream that shows the next reply of `call`, in `layout`; None where nobody listens."""
    stream, listeners = dspy.settings.send_stream, dspy.settings.stream_listeners or []
    if not isinstance(stream, CallerStream):
        return None
    mine = [listener for listener in listeners if listener.predict is call]
    return ReplyStream(call, stream, mine, model, layout) if mine or not listeners else None


_HALF_ESCAPED = re.compile(r"&[a-z]{0,4}\Z")
_FRAMES = {"chat": ("[[ ## {} ## ]]", "[[ ##"), "xml": ("<{}>", "</{}>")}


def text_so_far(layout: str, field: str, raw: str) -> str:
    """Returns the text of the output `field` in `raw`, the beginning of a reply; "" if it has not begun."""
    if layout in JSON_LAYOUTS:
        try:
            value = from_json(raw[max(0, raw.find("{")) :], allow_partial="trailing-strings")
        except ValueError:
            return ""
        text = value.get(field) if isinstance(value, dict) else None
        return text if isinstance(text, str) else ""
    opening, closing = (mark.format(field) for mark in _FRAMES[layout])
    text, closed, _ = raw.partition(opening)[2].partition(closing)
    if not closed:  # the end may be the beginning of the closing mark
        half = next((n for n in range(len(closing) - 1, 0, -1) if text.endswith(closing[:n])), 0)
        text = text[: len(text) - half]
    if layout == "xml":
        text = unescape(text if closed else _HALF_ESCAPED.sub("", text), {"&quot;": '"', "&apos;": "'"})
    return text.strip()
