"""Responses in JSON, and errors in OpenAI's shape with the HTTP status that its clients expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import JSONResponse

from ragc.core.redact import redact
from ragc.errors import (
    BudgetExhausted,
    ParseFailure,
    RagcError,
    RequestRefused,
    SourceError,
    StoreError,
    TargetUnavailable,
    UsageError,
)


class JsonResponse(JSONResponse):
    """A response in JSON."""

    def render(self, content: Any) -> bytes:
        """Returns the body."""
        return orjson.dumps(content)


class ApiError(Exception):
    """A refused or failed request: an HTTP status, and the content of the body."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """Returns the body of the response."""
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = "server_error" if self.status >= 500 else kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


_STATUS_OF: Mapping[type[RagcError], tuple[int, str]] = {
    BudgetExhausted: (429, "budget_exhausted"),
    TargetUnavailable: (503, "unavailable"),
    SourceError: (503, "unavailable"),
    StoreError: (503, "unavailable"),
    ParseFailure: (502, "unreadable_reply"),
    UsageError: (400, "invalid_value"),
}
"""The status and code of each kind of error, the first that fits."""


_OF_REFUSALS = {
    "filtered": (400, "content_filter"),
    "too long": (400, "context_length_exceeded"),
    "failed": (502, "refused"),
}


def refused(param: str, message: str) -> ApiError:
    """Returns the error for a parameter that is not supported."""
    return ApiError(400, message, param=param, code="unsupported_parameter")


def invalid(param: str, message: str) -> ApiError:
    """Returns the error for a parameter with a wrong value."""
    return ApiError(400, message, param=param, code="invalid_value")


def api_error(error: Exception) -> ApiError:
    """Returns the error for a client; of errors that ragc did not raise, it only says that there was one."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, TimeoutError):
        return ApiError(504, "The answer took longer than this server allows.", code="timeout")
    if not isinstance(error, RagcError):
        return ApiError(500, "The server failed; its log says why.", code="internal_error")
    if isinstance(error, RequestRefused):
        status, code = _OF_REFUSALS[error.kind]
        return ApiError(status, redact(str(error)), code=code)
    status, code = next(
        (answer for kind, answer in _STATUS_OF.items() if isinstance(error, kind)), (500, "internal_error")
    )
    return ApiError(status, redact(str(error)), code=code)
