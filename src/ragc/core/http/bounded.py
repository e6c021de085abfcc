"""Reads reply bodies up to a size limit; compressed bodies are decompressed piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, cast

import httpx

from ragc.core.http import MOST_BYTES

PACKED = "gzip, deflate"
"""The encodings that a request accepts."""

_PIECE = 2**16


class TooLarge(httpx.ReadError):
    """A reply that exceeds the size limit."""

    def __init__(self, most: int) -> None:
        super().__init__(f"sent a reply of more than {most:,} bytes")


async def unpack_bounded(parts: AsyncIterator[bytes], packed: str, most: int) -> AsyncIterator[bytes]:
    """Decompress the `parts` of a body whose Content-Encoding is `packed`.

    Raises TooLarge once more than `most` bytes were read, before or after decompression, and
    httpx.DecodingError for data that cannot be decompressed.
    """
    unpack = _unpacker(packed.strip().lower())
    raw = whole = 0
    async for part in parts:
        raw += len(part)
        for piece in unpack(part):
            whole += len(piece)
            if whole > most:
                raise TooLarge(most)
            yield piece
        if raw > most:
            raise TooLarge(most)


async def body(parts: AsyncIterator[bytes], packed: str, most: int) -> bytes:
    """Returns the whole body as `unpack_bounded` yields it."""
    return b"".join([piece async for piece in unpack_bounded(parts, packed, most)])


async def fetch(client: httpx.AsyncClient, url: str, most: int = MOST_BYTES, **more: Any) -> httpx.Response:
    """Returns the response to a GET request. At most `most` bytes are read. Raises httpx's errors."""
    headers = {**more.pop("headers", {}), "accept-encoding": PACKED}
    async with client.stream("GET", url, headers=headers, **more) as response:
        packed = response.headers.pop("content-encoding", "")
        content = await body(parts_of(response), packed, most)
        return httpx.Response(response.status_code, headers=response.headers, content=content)


def parts_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Returns the raw body of `response`. httpx's own iterator fails for a body that is already in memory."""
    return aiter(cast(httpx.AsyncByteStream, response.stream))


def _unpacker(packed: str) -> Callable[[bytes], Iterator[bytes]]:
    if packed in ("", "identity"):
        return lambda part: iter((part,))
    if packed not in ("gzip", "x-gzip", "deflate"):
        raise httpx.DecodingError(f"packed as {packed[:40]!r}")
    return _Inflating(raw=packed == "deflate").pieces


class _Inflating:
    """Decompresses gzip (also with several members) and deflate (with or without the zlib header)."""

    def __init__(self, *, raw: bool) -> None:
        self._open = zlib.decompressobj(wbits=47)
        self._raw = raw

    def pieces(self, part: bytes) -> Iterator[bytes]:
        """Yields the decompressed content of `part`, in pieces of at most 64 KiB."""
        while part:
            try:
                piece = self._open.decompress(part, _PIECE)
            except zlib.error as error:
                if not self._raw:
                    raise httpx.DecodingError("its packed body is damaged") from error
                self._open, self._raw = zlib.decompressobj(wbits=-15), False
                continue
            self._raw = False
            yield piece
            part = self._open.unconsumed_tail
            if self._open.eof:
                part = self._open.unused_data
                self._open = zlib.decompressobj(wbits=47)


class Limit:
    """The size limit for replies in one context, in bytes, and whether a reply exceeded it.

    `rewrite` is applied to each whole body before the library reads it.
    """

    def __init__(self, most: int, rewrite: Callable[[bytes], bytes] | None = None) -> None:
        self.most, self.rewrite, self.passed = most, rewrite, False


_limit: ContextVar[Limit | None] = ContextVar("ragc_reply_limit", default=None)


@contextmanager
def limit_replies(limit: Limit) -> Iterator[None]:
    """Limits transports passed to `bind` until exit: they read at most `limit` and follow no redirect."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def bind(transport: type[httpx.AsyncBaseTransport]) -> None:
    """Makes the library class `transport` obey the size limit of the context; without one it is unchanged.

    Under a limit the target of a redirect is removed: a library would send the prompt there, and the keys in
    provider-specific headers with it.
    """
    handle: Any = transport.handle_async_request
    if getattr(handle, "keeps_limit", False):
        return

    @wraps(handle)
    async def handle_async_request(self: Any, request: httpx.Request) -> httpx.Response:
        limit = _limit.get()
        if limit is None:
            response: httpx.Response = await handle(self, request)
            return response
        request.headers["accept-encoding"] = PACKED
        response = await handle(self, request)
        packed = response.headers.pop("content-encoding", "")
        if response.has_redirect_location:
            del response.headers["location"]
        response.stream = _LimitedStream(response.stream, packed, limit)
        return response

    handle_async_request.keeps_limit = True  # type: ignore[attr-defined]
    transport.handle_async_request = handle_async_request  # type: ignore[method-assign]


class _LimitedStream(httpx.AsyncByteStream):
    """A stream that raises TooLarge at the limit and records that on the limit."""

    def __init__(self, stream: Any, packed: str, limit: Limit) -> None:
        self._stream, self._packed, self._limit = stream, packed, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rewrite = self._limit.rewrite
        try:
            if rewrite is not None:
                yield rewrite(await body(aiter(self._stream), self._packed, self._limit.most))
                return
            async for piece in unpack_bounded(aiter(self._stream), self._packed, self._limit.most):
                yield piece
        except TooLarge:
            self._limit.passed = True
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()
