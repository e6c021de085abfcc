"""Streamed answers: server-sent events of chat completions and of responses.

Only the text of the answer is streamed, while the model writes it. If the final text differs, after a repair
or because marks without a passage were dropped, the closing event has `ragc.revised` and the final text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ragc.serving import openai_api
from ragc.serving.answers import Answering, ClientLeft, StepEvent, Text, unless_left
from ragc.serving.conversation import Interface
from ragc.serving.errors import api_error
from ragc.task.answering import Row

log = logging.getLogger("ragc.serving")

CLIENT_CLOSED = 499
"""The status of a request whose client has left; nobody reads it."""

Piece = Text | StepEvent | Row


class EventStream(Response):
    """Sends `answering` as events; its first piece has arrived already.

    `release` is called at the end, and `ended` with the final status of the stream and the answer, if there
    is one. A client that reads so slowly that it takes `time_out` seconds is disconnected.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        answering: Answering,
        first: Piece,
        interface: Interface,
        *,
        time_out: float,
        release: Callable[[], None],
        ended: Callable[[int, Row | None], None],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(None, headers={**headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.raw_headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        self._answering, self._first, self._time_out = answering, first, time_out
        self._release, self._ended = release, ended
        self._status = CLIENT_CLOSED
        self._row = first if isinstance(first, Row) else None
        self._events = ChatEvents(answering) if interface == "chat" else ResponseEvents(answering)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream, see ASGI, until the client leaves or reads too slowly."""
        try:
            async with asyncio.timeout(self._time_out):
                await unless_left(self._stream(send), scope)
        except ClientLeft:
            log.info("a client left before its answer was whole")
        except TimeoutError:
            log.warning("a client read its answer too slowly and was left")
        finally:
            self._answering.close()
            self._release()
            self._ended(self._status, self._row)

    async def _stream(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        async for part in self._parts():
            await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _parts(self) -> AsyncIterator[str]:
        for part in self._events.opening():
            yield part
        piece = self._first
        while True:
            parts = self._events.of_row(piece) if isinstance(piece, Row) else self._events.of_piece(piece)
            for part in parts:
                yield part
            if isinstance(piece, Row):
                self._status, self._row = 200, piece
                return
            try:
                piece = await self._answering.next()
            except Exception as error:
                if api_error(error).status == 500:
                    log.exception("a streamed answer failed")
                self._status = api_error(error).status
                for part in self._events.of_error(error):
                    yield part
                return


def _rest(text: str, shown: str) -> str:
    """Returns the part of `text` that was not sent; "" if another text was shown."""
    return text[len(shown) :] if text.startswith(shown) else ""


class ChatEvents:
    """The chunks of a chat completion."""

    def __init__(self, answering: Answering) -> None:
        self._conversation = answering.conversation
        self._id, self._created, self._shown = openai_api.new_id("chatcmpl-"), int(time.time()), ""

    def _chunk(self, delta: Mapping[str, Any] | None, finish: str | None = None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._conversation.model,
            "choices": [] if delta is None else choices,
            **more,
        }
        return f"data: {json.dumps(chunk)}\n\n"

    def opening(self) -> list[str]:
        """Returns the chunk with the role."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def of_piece(self, piece: Text | StepEvent) -> list[str]:
        """Returns a chunk with a further part of the text, or with a step."""
        if isinstance(piece, StepEvent):
            return [self._chunk({}, ragc={"step": piece.event.to_json()})]
        self._shown += piece.text
        return [self._chunk({"content": piece.text})]

    def of_row(self, row: Row) -> list[str]:
        """Returns the rest of the text, the closing chunk, and on request the usage."""
        rest = _rest(row.prediction or "", self._shown)
        cited = openai_api.chat_annotations(row)
        own = openai_api.own_fields(row, self._conversation, self._shown)
        closing: dict[str, Any] = {"annotations": cited} if cited else {}
        return [
            *([self._chunk({"content": rest})] if rest else []),
            self._chunk(closing, openai_api.finish_reason(row), ragc=own),
            *([self._chunk(None, usage=openai_api.chat_usage(row))] if self._conversation.with_usage else []),
            "data: [DONE]\n\n",
        ]

    def of_error(self, error: Exception) -> list[str]:
        """Yields the error, which is the last event."""
        return [f"data: {json.dumps(api_error(error).to_json())}\n\n"]


class ResponseEvents:
    """The events of a response."""

    def __init__(self, answering: Answering) -> None:
        self._conversation = answering.conversation
        self._id, self._message = openai_api.new_id("resp_"), openai_api.new_id("msg_")
        self._created, self._shown, self._number = int(time.time()), "", -1

    def _event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        event = {"type": kind, "sequence_number": self._number, **fields}
        return f"event: {kind}\ndata: {json.dumps(event)}\n\n"

    def _part(self, kind: str, **fields: Any) -> str:
        """Returns an event about the one part of the one output."""
        return self._event(kind, item_id=self._message, output_index=0, content_index=0, **fields)

    def opening(self) -> list[str]:
        """Returns the events before the text."""
        begun = openai_api.response(self._id, self._created, self._conversation)
        message = {"id": self._message, "type": "message", "role": "assistant", "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return [
            self._event("response.created", response=begun),
            self._event("response.in_progress", response=begun),
            self._event(
                "response.output_item.added", output_index=0, item={**message, "status": "in_progress"}
            ),
            self._part("response.content_part.added", part=part),
        ]

    def of_piece(self, piece: Text | StepEvent) -> list[str]:
        """Returns an event with a further part of the text, or with a step."""
        if isinstance(piece, StepEvent):
            return [self._event("response.ragc.step", step=piece.event.to_json())]
        self._shown += piece.text
        return [self._part("response.output_text.delta", delta=piece.text, logprobs=[])]

    def of_row(self, row: Row) -> list[str]:
        """Returns the rest of the text, and the closing events."""
        text, part = row.prediction or "", openai_api.output_text(row)
        rest = _rest(text, self._shown)
        whole = openai_api.response(
            self._id, self._created, self._conversation, row, message_id=self._message, shown=self._shown
        )
        return [
            *([self._part("response.output_text.delta", delta=rest, logprobs=[])] if rest else []),
            *(
                self._part("response.output_text.annotation.added", annotation_index=n, annotation=cited)
                for n, cited in enumerate(part["annotations"])
            ),
            self._part("response.output_text.done", text=text, logprobs=[]),
            self._part("response.content_part.done", part=part),
            self._event("response.output_item.done", output_index=0, item=whole["output"][0]),
            self._event(f"response.{whole['status']}", response=whole),
        ]

    def of_error(self, error: Exception) -> list[str]:
        """Yields the error, which is the last event."""
        problem = {"code": "server_error", "message": api_error(error).message}
        failed = openai_api.response(self._id, self._created, self._conversation, error=problem)
        return [self._event("response.failed", response=failed)]
