"""The pooled connections to one server.

Requests go straight to aiohttp under httpx: cookies, redirects and the merging of addresses, which httpx's
own client sees to, cost more than the exchange itself and are nothing that an API needs. Where the
environment names a proxy, that client is used.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable, Mapping

import httpx
from httpx_aiohttp import AiohttpTransport

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Pool:
    """Connections to `url`, whose path is what paths are added to; at most `connections` of them.

    They belong to one event loop at a time: a request on another begins anew. Credentials and query of `url`
    are sent with every request, and so are `headers`, which are asked for when the first one is.
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
        self._timeout, self._given = timeout, transport
        self._addresses: dict[str, httpx.URL] = {}
        self._headers = httpx.Headers()
        self._auth: httpx.BasicAuth | None = None
        self._open: httpx.AsyncBaseTransport | httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        """The whole response, whatever its status. Raises httpx's errors."""
        held = self._held()
        request = httpx.Request(
            method,
            self._address(path),
            headers=self._headers,
            content=content,
            extensions={"timeout": self._timeout.as_dict()},
        )
        if self._auth is not None:
            request = next(self._auth.sync_auth_flow(request))
        if isinstance(held, httpx.AsyncClient):
            return await held.send(request)
        response = await held.handle_async_request(request)
        try:
            await response.aread()
        finally:
            await response.aclose()
        return response

    async def aclose(self) -> None:
        """Close the connections; a later request opens new ones."""
        held, self._open = self._open, None
        if held is not None and self._loop is asyncio.get_running_loop():
            await held.aclose()

    def _address(self, path: str) -> httpx.URL:
        found = self._addresses.get(path)
        if found is None:
            plain = self._url.copy_with(path=self._url.path.rstrip("/") + path, username="", password="")
            found = self._addresses[path] = plain
        return found

    def _held(self) -> httpx.AsyncBaseTransport | httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._open is None or self._loop is not loop:
            url = self._url
            self._headers = httpx.Headers({"accept": "*/*", "user-agent": "ragc", **self._make_headers()})
            self._auth = httpx.BasicAuth(url.username, url.password) if url.userinfo else None
            self._open, self._loop = self._given or self._made(), loop
        return self._open

    def _made(self) -> httpx.AsyncBaseTransport | httpx.AsyncClient:
        limits = httpx.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        if self._url.host not in LOOPBACK and urllib.request.getproxies():
            return httpx.AsyncClient(timeout=self._timeout, limits=limits)
        return AiohttpTransport(limits=limits, trust_env=False)
