"""The FastAPI application: routes, the limit in flight, and errors in OpenAI's shape."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from ragc.core import event_loop
from ragc.core.redact import redact
from ragc.errors import RagcError, UnknownName
from ragc.serving import openai_api
from ragc.serving.answers import Answering, ClientLeft, answer_whole, unless_left
from ragc.serving.conversation import Interface, read_conversation
from ragc.serving.errors import ApiError, JsonResponse, api_error
from ragc.serving.guards import BODY, Guards, client
from ragc.serving.metrics import Metrics
from ragc.serving.page import FILES, PageFiles
from ragc.serving.programs import ServedProgram, program_named
from ragc.serving.settings import Settings
from ragc.serving.streaming import CLIENT_CLOSED, EventStream
from ragc.task.answering import Row

log = logging.getLogger("ragc.serving")

MODEL = "ragc.model"
"""The entry of a request's scope with the model it asks, once that is known."""

SLOW_READER_S = 60.0
"""Seconds beyond the time of an answer that a client may take to read it."""


class Service:
    """The programs of a server, the questions in flight, and the handlers of its routes."""

    def __init__(self, programs: Mapping[str, ServedProgram], settings: Settings) -> None:
        self._programs, self._settings = programs, settings
        self.in_flight = 0
        self._of_key: Counter[str] = Counter()
        self._metrics = Metrics()
        self._not_open = set(programs)

    async def open(self) -> None:
        """Opens the models before the first question; failures are retried with that question."""
        for name, served in self._programs.items():
            try:
                await event_loop.on_loop(served.opened.task.runtime.open())
            except RagcError as error:
                log.error("A model cannot be opened: %s", redact(str(error)))
            else:
                self._not_open.discard(name)

    @property
    def questions(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """What answers questions, by address."""
        return {"/v1/chat/completions": self.chat, "/v1/responses": self.responses}

    async def health(self, request: Request) -> Response:
        """Returns whether the process runs."""
        return JsonResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Returns whether all models are open. Problems are only logged, as no key is needed here."""
        status = "not ready" if self._not_open else "ready"
        return JsonResponse({"status": status}, 503 if self._not_open else 200)

    async def models(self, request: Request) -> Response:
        """Returns the programs."""
        return JsonResponse(openai_api.models(self._programs.values()))

    async def model(self, request: Request) -> Response:
        """Returns one program."""
        return JsonResponse(openai_api.model(self._program(request.path_params["name"])))

    async def metrics(self, request: Request) -> Response:
        """Returns counts since the server began, for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def chat(self, request: Request) -> Response:
        """Returns a chat completion."""
        return await self._counted(request, "chat")

    async def responses(self, request: Request) -> Response:
        """Returns a response."""
        return await self._counted(request, "responses")

    def _program(self, name: str) -> ServedProgram:
        try:
            return program_named(self._programs, name)
        except UnknownName as error:
            raise ApiError(404, str(error), param="model", code="model_not_found") from None

    async def _counted(self, request: Request, interface: Interface) -> Response:
        """Answers as `_answer` does; counts a request that is refused or fails before its stream begins."""
        try:
            return await self._answer(request, interface)
        except ClientLeft:
            self._metrics.count(request.scope.get(MODEL, ""), interface, CLIENT_CLOSED)
            raise
        except Exception as error:
            self._metrics.count(request.scope.get(MODEL, ""), interface, api_error(error).status)
            raise

    async def _answer(self, request: Request, interface: Interface) -> Response:
        conversation = read_conversation(request.scope[BODY], interface, self._settings)
        served = self._program(conversation.model)
        request.scope[MODEL] = served.id
        release = self._admit()
        began, handed_on = time.monotonic(), False

        def ended(status: int, row: Row | None) -> None:
            self._metrics.count(served.id, interface, status)
            if row is not None:
                self._not_open.discard(served.id)
                self._metrics.answered(served.id, row, time.monotonic() - began)

        answering = Answering(served, conversation, self._settings.time_out) if conversation.stream else None
        try:
            effect = ", ".join(conversation.without_effect)
            headers = {"X-Ragc-No-Effect": effect} if effect else {}
            if answering is not None:
                answering.start()
                first = await unless_left(answering.next(), request.scope)
                handed_on = True
                patience = self._settings.time_out + SLOW_READER_S
                return EventStream(
                    answering,
                    first,
                    interface,
                    time_out=patience,
                    release=release,
                    ended=ended,
                    headers=headers,
                )
            work = answer_whole(served, conversation, self._settings.time_out)
            row = await unless_left(work, request.scope)
            ended(200, row)
            if interface == "chat":
                return JsonResponse(openai_api.chat_completion(row, conversation), headers=headers)
            return JsonResponse(
                openai_api.response(openai_api.new_id("resp_"), int(time.time()), conversation, row),
                headers=headers,
            )
        finally:
            if not handed_on:
                if answering is not None:
                    answering.close()
                release()

    def _admit(self) -> Callable[[], None]:
        """Counts a question in flight; returns the function that ends it. Raises ApiError if too many."""
        key, limits = client.get(), self._settings
        per_key = limits.in_flight_per_key or limits.in_flight
        if self.in_flight >= limits.in_flight or self._of_key[key] >= per_key:
            whose, most = ("server", limits.in_flight)
            if self.in_flight < most:
                whose, most = ("key", per_key)
            raise ApiError(
                429,
                f"{most} questions of this {whose} are answered at once; try again shortly.",
                code="too_many_requests",
                headers={"Retry-After": "1"},
            )
        self._count_in_flight(key, 1)
        ended = False

        def release() -> None:
            nonlocal ended
            if not ended:
                self._count_in_flight(key, -1)
            ended = True

        return release

    def _count_in_flight(self, key: str, change: int) -> None:
        self.in_flight += change
        self._of_key[key] += change
        if not self._of_key[key]:
            del self._of_key[key]
        self._metrics.in_flight.set(self.in_flight)


def build_app(programs: Mapping[str, ServedProgram], settings: Settings) -> Application:
    """Returns the application that serves `programs`, by model id.

    Raises UsageError if spans are asked for and OpenTelemetry is not installed.
    """
    service = Service(programs, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(service.open())
        try:
            yield
        finally:
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening

    app = FastAPI(title="ragc", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    if traced := os.environ.get("RAGC_OTEL", "") not in ("", "0"):
        from ragc.programs.telemetry import tracer

        tracer()  # says here, not at each question, what is not installed
    # Routes of Starlette: those of FastAPI resolve dependencies, of which there are none, at each request.
    for address, handler in service.questions.items():
        app.add_route(address, handler, methods=["POST"])
    app.add_route("/healthz", service.health, methods=["GET"])
    app.add_route("/readyz", service.ready, methods=["GET"])
    app.add_route("/metrics", service.metrics, methods=["GET"])
    page = PageFiles()
    for address in FILES:
        app.add_route(address, page.file, methods=["GET"])
    app.add_route("/v1/models", service.models, methods=["GET"])
    app.add_route("/v1/models/{name:path}", service.model, methods=["GET"])
    for kind in (ApiError, RagcError, TimeoutError, ClientLeft, HTTPException, Exception):
        app.add_exception_handler(kind, _error_response)
    guarded: ASGIApp = Guards(Questions(app, service), settings)
    return Application(TakesUpTraces(guarded) if traced else guarded, service)


class Application:
    """What the server runs, and the `service` behind it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self._app(scope, receive, send)


class Questions:
    """Gives questions to `service` at once, and everything else to `app`.

    The way through FastAPI's middleware and routes takes longer than the rest of the server's work on an
    answer.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._handlers = app, service.questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        handler = self._handlers.get(scope["path"]) if is_post else None
        if handler is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await handler(request)
        except Exception as error:
            if api_error(error).status == 500 and not isinstance(error, RagcError | ClientLeft):
                log.exception("a request failed")
            response = await _error_response(request, error)
        await response(scope, receive, send)


async def _error_response(request: Request, error: Exception) -> Response:
    """Returns the response to a request that was refused or failed."""
    if isinstance(error, ClientLeft):
        return Response(status_code=CLIENT_CLOSED)
    if isinstance(error, HTTPException):
        what = {404: "There is no such address", 405: "This address does not take that method"}
        text = f"{what.get(error.status_code, error.detail)}; see the guide, Serving a compiled program."
        code = "method_not_allowed" if error.status_code == 405 else "not_found"
        error = ApiError(error.status_code, text, code=code, headers=error.headers)
    problem = api_error(error)
    if problem.status == 500 and isinstance(error, RagcError):  # others are logged by the server
        log.error("a request failed", exc_info=error)
    return JsonResponse(problem.to_json(), problem.status, problem.headers)


class TakesUpTraces:
    """Adds a question's spans to the trace that the header `traceparent` names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI call in the caller's trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry import context, propagate

        token = context.attach(propagate.extract(Headers(scope=scope)))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)
