"""HTTP calls of the API: JSON is posted, one `result` is read, and failed calls are retried if that may help.

No connection, a timeout, 408, 429 and 5xx are retried, after a wait that doubles or that the server asked
for. Any other status but 200, a body over 16 MiB, one that is not JSON and one without `result` fail at once.
Each final failure is one SourceError. The caller decides on a `result` of another shape than the path
promises; it counts as nothing found. NaN and infinity are read as null.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from ragc.core.event_loop import closes
from ragc.errors import SourceError, TargetUnavailable, UsageError
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import wait_asked

MAX_REPLY_BYTES = 16 * 1024 * 1024
"""Bytes of one reply."""

DEEPEST = 50
"""Lists and objects inside each other that a reply may hold."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 10.0
"""Seconds before the second try, doubled before each further one, and the most ever waited."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for one call and for its connection, tries of a call, and calls in flight; all above 0."""

    timeout_s: float = 10.0
    connect_timeout_s: float = 5.0
    tries: int = 4
    concurrency: int = 8

    def __post_init__(self) -> None:
        for name in ("timeout_s", "connect_timeout_s", "tries", "concurrency"):
            if not getattr(self, name) > 0:
                raise UsageError(f"A source of kind 'api' needs {name} above 0, got {getattr(self, name)}.")


class ApiClient:
    """Posts to paths under `base_url`, whose credentials and query are sent but never shown.

    `transport` and `sleep` replace the network and the clock in tests. Raises UsageError when `base_url` is
    no http or https address. `endpoint` is the address as it may be shown.
    """

    def __init__(
        self,
        base_url: str,
        limits: Limits,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        try:
            self._url = httpx.URL(base_url)
        except (httpx.InvalidURL, TypeError):
            self._url = httpx.URL("")
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise UsageError(
                "A source of kind 'api' needs base_url, the address of a CRAG mock API such as "
                "http://127.0.0.1:8000; what was given is no http or https address."
            )
        plain = self._url.copy_with(username="", password="", query=None, fragment=None)
        self.endpoint = str(plain).rstrip("/")
        self.limits, self._transport, self._sleep = limits, transport, sleep
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, path: str, /, **body: object) -> Any:
        """Posts `body` to `path`, which starts with a slash, and returns the `result` of the reply.

        Raises SourceError by the rules of this module.
        """
        where = self.endpoint + path

        async def attempt() -> Any:
            return _result(await self._post(path, body), where)

        try:
            return await with_tries(
                attempt, where, tries=self.limits.tries, first_wait_s=FIRST_WAIT_S,
                longest_wait_s=LONGEST_WAIT_S, sleep=self._sleep,
            )  # fmt: skip
        except TargetUnavailable as error:
            raise SourceError(f"{str(error).removesuffix('.')}; see that the API is up.") from None

    async def aclose(self) -> None:
        """Closes the pooled connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            most, url = self.limits.concurrency, self._url
            self._client = httpx.AsyncClient(
                params=url.params,
                auth=(url.username, url.password) if url.username or url.password else None,
                timeout=httpx.Timeout(
                    self.limits.timeout_s, connect=self.limits.connect_timeout_s, pool=None
                ),
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
                transport=self._transport,
                trust_env=url.host not in ("127.0.0.1", "localhost", "::1"),
            )
            self._loop = loop
            closes(self.aclose)
        return self._client

    async def _post(self, path: str, body: dict[str, object]) -> bytes:
        """Returns the body of a 200; Again or SourceError otherwise."""
        try:
            async with self._http().stream("POST", self.endpoint + path, json=body) as response:
                if response.status_code in (408, 429) or response.status_code >= 500:
                    wait = wait_asked(response.headers)
                    wait = None if wait is None else min(wait, LONGEST_WAIT_S)
                    raise Again(f"answers with status {response.status_code}", wait)
                if response.status_code != 200:
                    raise SourceError(
                        f"{self.endpoint}{path} answers with status {response.status_code}; "
                        "see that base_url is that of a CRAG mock API."
                    )
                read = bytearray()
                async for part in response.aiter_bytes():
                    read += part
                    if len(read) > MAX_REPLY_BYTES:
                        raise SourceError(f"{self.endpoint}{path} sent over {MAX_REPLY_BYTES} bytes.")
                return bytes(read)
        except httpx.TimeoutException:
            raise Again(f"does not answer within {self.limits.timeout_s:g} s") from None
        except httpx.DecodingError:
            raise SourceError(f"{self.endpoint}{path} sent a body that cannot be unpacked.") from None
        except httpx.HTTPError as error:
            raise Again(f"does not answer ({type(error).__name__})") from None


def _result(body: bytes, where: str) -> Any:
    try:
        reply = json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise SourceError(f"{where} sent something that is not JSON; see base_url.") from None
    if not isinstance(reply, dict) or "result" not in reply:
        raise SourceError(f"{where} sent JSON without `result`, so it is no CRAG mock API.")
    if _is_deep(reply):
        raise SourceError(f"{where} sent JSON nested more than {DEEPEST} deep.")
    return _whole(reply["result"])


def _is_deep(value: Any) -> bool:
    """Returns whether lists and objects lie more than `DEEPEST` deep inside each other."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        if not inner:
            return False
        level = inner
    return True


def _whole(value: Any) -> Any:
    """Returns `value` without halves of surrogate pairs, which JSON can escape and no file can hold."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(item) for name, item in value.items()}
    return value
