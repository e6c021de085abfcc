"""What a failed exchange says of the connection it was to go over."""

from __future__ import annotations

import aiohttp
import httpx

from ragc.errors import TargetError
from ragc.targets.bounded import TooLarge
from ragc.targets.redact import shorten
from ragc.targets.retry import Passing


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


def broken(error: Exception, endpoint: str, timeout_s: float) -> Exception:
    """What to raise for an exchange of httpx's that gave no response: Passing or a TargetError."""
    why = shorten(str(error)) or type(error).__name__
    if isinstance(error, TooLarge):
        return Passing(str(error))
    if refused(error):
        return Passing(f"does not answer ({why})", away=True)
    if isinstance(error, httpx.ConnectTimeout | httpx.NetworkError | httpx.RemoteProtocolError):
        return Passing(f"broke the connection off ({why})")
    if isinstance(error, httpx.TimeoutException):
        return Passing(f"gave no answer within {timeout_s:g} s")
    if isinstance(error, httpx.DecodingError):
        return Passing(f"sent a body that cannot be unpacked ({why})")
    return TargetError(f"{endpoint} could not be asked ({why}).", endpoint=endpoint)
