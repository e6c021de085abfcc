"""Checks before the application runs: hosts, origins, keys, and the type and size of bodies.

A page in a browser on the server's machine can send requests to it. Such a page sends its own `Origin`, and
after DNS rebinding a `Host` with its own name; both are refused. Cross-origin headers are never sent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import MutableMapping
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ragc.serving.errors import ApiError, JsonResponse
from ragc.serving.page import FILES
from ragc.serving.settings import Settings

OPEN_PATHS = ("/healthz", "/readyz", *FILES)
"""Paths that need no key: they say nothing of the programs, and the page asks its user for one."""

BODY = "ragc.body"
"""The entry of a request's scope with its body."""

client: ContextVar[str] = ContextVar("ragc_serving_client", default="")
"""The digest of the key of the present request; "" where no keys are needed."""


class Guards:
    """The middleware: refuses a request, or reads its body and passes both on."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI call after its checks."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_source(headers)
            key = self._key(scope["path"], headers)
            if scope["method"] == "POST":
                scope[BODY] = await self._read(headers, receive)
                receive = _handing_on(scope[BODY], receive)
        except ApiError as error:
            await JsonResponse(error.to_json(), error.status, error.headers)(scope, receive, send)
            return
        token = client.set(key)
        try:
            await self._app(scope, receive, send)
        finally:
            client.reset(token)

    def _check_source(self, headers: Headers) -> None:
        host = headers.get("host", "")
        names = {"localhost", self._settings.host, *self._settings.allowed_hosts}
        name = _without_port(host)
        if not (name in names or _is_address(name)):
            raise ApiError(403, "This server is not known by that host name; see --allow-host.", code="host")
        own = (f"http://{host}", f"https://{host}")
        if headers.get("origin", own[0]) not in own:
            raise ApiError(403, "Requests from pages of another origin are refused.", code="origin")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ApiError(403, "Requests from pages of another site are refused.", code="origin")

    def _key(self, path: str, headers: Headers) -> str:
        """Returns the digest of the client's key. Raises ApiError if one is needed and missing or wrong."""
        if not self._settings.key_digests or path in OPEN_PATHS:
            return ""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        digest = sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        # Every digest is compared, so that the time says nothing of which one it is.
        matches = sum([compare_digest(digest, known) for known in self._settings.key_digests])
        if scheme.lower() != "bearer" or not matches:
            raise ApiError(
                401,
                "A key of this server is needed: Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return digest.hex()

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """Returns the whole body."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, "The body must be of type application/json.", code="content_type")
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "The body must not be compressed.", code="content_encoding")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._settings.max_body:
            raise self._too_large()
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ApiError(400, "The client left before the body was whole.", code="incomplete")
            body += message.get("body", b"")
            if len(body) > self._settings.max_body:
                raise self._too_large()
            if not message.get("more_body"):
                return bytes(body)

    def _too_large(self) -> ApiError:
        # The rest of the body is not read, so the connection cannot be used again.
        message = f"The body is over {self._settings.max_body:,} bytes."
        return ApiError(413, message, code="too_large", headers={"Connection": "close"})


def _handing_on(body: bytes, receive: Receive) -> Receive:
    """Returns what gives the application the `body` that was read, then what `receive` gives."""
    waiting: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body}]

    async def hand_on() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return hand_on


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[").lower()
    return host.partition(":")[0].rstrip(".").lower()


@lru_cache(maxsize=64)
def _is_address(name: str) -> bool:
    """Returns whether `name` is an IP address, to which no foreign name can resolve."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
