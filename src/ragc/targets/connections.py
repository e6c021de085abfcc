"""What a failed exchange says of the connection it was to go over."""

from __future__ import annotations

import aiohttp
import httpx


def refused(error: BaseException | None) -> bool:
    """Whether no connection came about, so that nothing took the request.

    httpx over aiohttp tells a connection that broke off before the head as one that timed out; the aiohttp
    error behind it, where there is one, says which it was.
    """
    found = False
    while error is not None:
        if isinstance(error, aiohttp.ClientConnectionError):
            return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        found = found or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        error = error.__cause__ or error.__context__
    return found
