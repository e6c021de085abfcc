"""Connection pool for one server, and the classification of failed exchanges.

Requests go straight to aiohttp. What httpx adds (cookies, redirects, URL merging, request and response
models) costs more than the exchange itself, and an API needs none of it. httpx's own client is used where the
environment names a proxy, or where a transport is given.

`never_connected` and `exchange_error` classify a failed exchange.
"""

from __future__ import annotations

import asyncio
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp.transport import map_aiohttp_exceptions
from yarl import URL

from ragc.core.event_loop import closes, closes_after, is_on_loop
from ragc.core.redact import shorten
from ragc.core.retry import RetryableError
from ragc.errors import TargetError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Response(NamedTuple):
    """A response: its status, its headers (names in any case) and its decoded body."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class Pool:
    """Connections to `url`, at most `connections` of them; request paths are appended to the path of `url`.

    They belong to one event loop at a time: a request on another loop opens new ones. Credentials and query
    of `url`, and `headers`, go with every request; `headers` is called at the first request.
    """

    def __init__(
        self,
        url: httpx.URL,
        timeout: httpx.Timeout,
        connections: int,
        headers: Callable[[], Mapping[str, str]],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url, self._connections, self._make_headers = url, connections, headers
        self._timeout, self._transport = timeout, transport
        self._addresses: dict[str, URL] = {}
        self._open: aiohttp.ClientSession | httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forget_closing: Callable[[], object] = lambda: None

    async def send(self, method: str, path: str, content: bytes | None = None) -> Response:
        """Returns the whole response, whatever its status. Raises httpx's errors."""
        held, address = self._client(), self._address(path)
        if isinstance(held, httpx.AsyncClient):
            answer = await held.request(method, str(address), content=content)
            return Response(answer.status_code, answer.headers, answer.content)
        with _translate_errors(), map_aiohttp_exceptions():
            async with held.request(method, address, data=content, allow_redirects=False) as response:
                return Response(response.status, response.headers, await response.read())

    async def aclose(self) -> None:
        """Closes the connections; a later request opens new ones."""
        held, self._open = self._open, None
        if held is None or self._loop is not asyncio.get_running_loop():
            return
        await _closer(held)()
        self._forget_closing()

    def _address(self, path: str) -> URL:
        url = self._addresses.get(path)
        if url is None:
            plain = self._url.copy_with(path=self._url.path.rstrip("/") + path, username="", password="")
            url = self._addresses[path] = URL(str(plain), encoded=True)
        return url

    def _client(self) -> aiohttp.ClientSession | httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._open is None or self._loop is not loop:
            headers = {"accept": "*/*", "user-agent": "ragc"}
            headers |= self._make_headers()
            if self._url.userinfo:
                known = f"{self._url.username}:{self._url.password}".encode()
                headers["authorization"] = f"Basic {b64encode(known).decode()}"
            self._open, self._loop = self._new_client(headers), loop
            closes(self)
            if is_on_loop():
                self._forget_closing = closes_after(self, _closer(self._open))
        return self._open

    def _new_client(self, headers: Mapping[str, str]) -> aiohttp.ClientSession | httpx.AsyncClient:
        url, most = self._url, self._connections
        if self._transport or (url.host not in LOOPBACK and urllib.request.getproxies()):
            return httpx.AsyncClient(
                transport=self._transport,
                headers=headers,
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            )
        secure = httpx.create_ssl_context(trust_env=False) if url.scheme == "https" else True
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most, ssl=secure),
            headers=headers,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._timeout.connect, sock_read=self._timeout.read
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )


def _closer(held: aiohttp.ClientSession | httpx.AsyncClient) -> Callable[[], Awaitable[None]]:
    return held.aclose if isinstance(held, httpx.AsyncClient) else held.close


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translates aiohttp's errors for malformed HTTP to httpx's; `map_aiohttp_exceptions` lacks them."""
    try:
        yield
    except (aiohttp.ClientError, HttpProcessingError, ValueError) as error:
        raise httpx.RemoteProtocolError("it sent no HTTP reply") from error


def never_connected(error: BaseException | None) -> bool:
    """Returns whether no connection was made, so that the request cannot have been processed.

    httpx over aiohttp reports a connection that broke before the response head as a timeout. The aiohttp
    error in the cause chain, if any, distinguishes the two.
    """
    connect_failed = False
    while error is not None:
        if isinstance(error, aiohttp.ClientConnectionError):
            return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        connect_failed = connect_failed or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        error = error.__cause__ or error.__context__
    return connect_failed


def exchange_error(error: Exception, endpoint: str, timeout_s: float) -> Exception:
    """Returns the exception for an httpx exchange without a response: RetryableError or a TargetError."""
    why = shorten(str(error)) or type(error).__name__
    if never_connected(error):
        return RetryableError(f"does not answer ({why})", refused=True)
    if isinstance(error, httpx.ConnectTimeout | httpx.NetworkError | httpx.RemoteProtocolError):
        return RetryableError(f"broke the connection off ({why})")
    if isinstance(error, httpx.TimeoutException):
        return RetryableError(f"gave no answer within {timeout_s:g} s")
    if isinstance(error, httpx.DecodingError):
        return RetryableError(f"sent a body that cannot be unpacked ({why})")
    return TargetError(f"{endpoint} could not be asked ({why}).", endpoint=endpoint)
