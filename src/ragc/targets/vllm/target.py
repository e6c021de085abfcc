"""Target for a running server with OpenAI's chat API: vLLM, or llama.cpp's server.

`check_reply_fits` refuses a request whose maximum reply exceeds the context, before it is sent.
`check_logprobs` refuses a reply without the log-probabilities that were requested.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx
import orjson

from ragc.core.digest import digest
from ragc.core.http import Pool, exchange_error
from ragc.core.redact import remember, shorten
from ragc.core.retry import (
    PASSING_STATUS,
    Retry,
    RetryableError,
    Sleep,
    is_refusal,
    retry_after,
    with_retries,
)
from ragc.errors import TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch, token_count
from ragc.targets.openai_wire import (
    Unreadable,
    billed_tokens,
    error_message,
    error_usage,
    is_context_error,
    part,
    read_json,
    read_reply,
    request_body,
)
from ragc.targets.prices import FREE, Price
from ragc.targets.thinking import ThinkingRoom, identity_mark, room_left
from ragc.targets.vllm.options import VllmOptions


def check_reply_fits(request: ChatRequest, context: int, endpoint: str) -> None:
    """Raises TargetError when the maximum reply to `request` leaves no space for any prompt.

    `context` counts tokens; 0 is unknown. A prompt that is itself too long is detected by the server, which
    has the tokenizer.
    """
    most = request.sampling.max_tokens
    if 0 < context <= most:
        raise TargetError(
            f"A reply of up to {most} tokens does not fit the context window of {endpoint}, which holds "
            f"{context} tokens, prompt included; lower max_tokens or serve the model with a longer context.",
            refused=True,
        )


def check_logprobs(request: ChatRequest, reply: Reply, endpoint: str) -> None:
    """Raises TargetError when `request` wanted log-probabilities and `reply` has none."""
    if request.logprobs and reply.text and not reply.logprobs:
        raise TargetError(f'{endpoint} sent no logprobs; add lacks = ["logprobs"] to this target.')
    if request.prompt_logprobs and not reply.prompt_logprobs:
        raise TargetError(
            f"{endpoint} sent no prompt_logprobs; vLLM has them, and this server or target may not."
        )


UNKNOWN_CONTEXT = 4096
CAPABILITIES: tuple[Capability, ...] = ("schema", "logprobs", "seed", "prefix_cache")
_DEFAULTS = VllmOptions()


class VllmTarget(ThinkingRoom):
    """Sends requests for `model` to the server at `base_url` (which ends in /v1).

    Credentials and query of `base_url` are sent but never shown. All calls must come from one event loop at a
    time. Tokens are estimated as a quarter of the characters, unless the server reports its own counts.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        options: VllmOptions = _DEFAULTS,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        url = _url(base_url)
        if not model:
            raise UsageError(f"A vllm target needs the name of the model that {url.host} serves.")
        plain = url.copy_with(username="", password="", query=None, fragment=None)
        self.endpoint = str(plain).rstrip("/")
        self.model = model
        self.options = options
        self.name = f"vllm {model}"
        extra = f"#{digest(dict(options.sent))[:12]}" if options.sent else ""
        self.plain_identity = options.identity or f"{model}@{self.endpoint}{extra}"
        self.capabilities = options.correct(CAPABILITIES)
        self.whole_context = options.context_tokens
        self.concurrency = options.concurrency
        self._retry = Retry(options.tries, options.total)
        timeout = httpx.Timeout(options.timeout_s, connect=options.connect_timeout_s, pool=None)
        self._pool = Pool(url, timeout, options.concurrency, self._headers, transport)
        self._sleep = sleep
        self._ready = False

    def __deepcopy__(self, memo: object) -> VllmTarget:
        return self

    def __repr__(self) -> str:
        return f"VllmTarget({self.endpoint!r}, {self.model!r})"

    @property
    def identity(self) -> str:
        """The model, the server, the fields merged into requests, and the tokens for thoughts."""
        return f"{self.plain_identity}{identity_mark(self.thinking_tokens)}"

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, without those for thoughts; a guess until the server reports it."""
        return room_left(self, UNKNOWN_CONTEXT)

    async def open(self, progress: Watch | None = None) -> None:
        """Requests the server's list of models; no completion is sent.

        Raises TargetUnavailable when no server answers, UnknownName when it does not have the model, and
        TargetError when it refuses.
        """
        if self._ready:
            return

        async def attempt() -> Any:
            return await self._send("GET", "/models")

        try:
            listed = await with_retries(attempt, Retry(1, self._retry.total_s), endpoint=self.endpoint)
        except TargetUnavailable as error:
            text = f"{str(error)[:-1]}; start the server or correct base_url."
            raise TargetUnavailable(text, endpoint=self.endpoint) from None
        try:
            cards = {str(card["id"]): card for card in listed["data"]}
        except (KeyError, TypeError, RecursionError):
            raise TargetError(
                f"{self.endpoint}/models does not list models; base_url usually ends in /v1."
            ) from None
        if self.model not in cards:
            listed_names = [shorten(name, 200) for name in cards]
            raise UnknownName(f"model at {self.endpoint}", self.model, listed_names)
        self.whole_context = self.options.context_tokens or _context(cards[self.model])
        if cards[self.model].get("owned_by") == "vllm":
            self.capabilities = self.options.correct((*CAPABILITIES, "n", "prompt_logprobs"))
        self._ready = True

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply; connection errors, 408, 429, 5xx and unreadable bodies are retried."""
        check_reply_fits(request, self.whole_context, self.endpoint)
        content = orjson.dumps(request_body(request, self.model, self.options.sent))

        async def attempt() -> Reply:
            body = await self._send("POST", "/chat/completions", content)
            try:
                return read_reply(body, request, self.count_tokens)
            except Unreadable as error:
                raise RetryableError(
                    f"sent a reply that is no chat completion ({error})", usage=billed_tokens(body)
                ) from None

        reply = await with_retries(attempt, self._retry, endpoint=self.endpoint, sleep=self._sleep)
        check_logprobs(request, reply, self.endpoint)
        return reply

    def table_price(self) -> Price:
        """Returns a price of 0: a server of the user's own is free unless it is priced."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns a quarter of the characters, rounded up; the tokenizer is on the server."""
        return (len(text) + 3) // 4

    async def aclose(self) -> None:
        """Closes the pooled connections; a later call opens new ones."""
        self._ready = False
        await self._pool.aclose()

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if self.options.api_key_env:
            headers["authorization"] = f"Bearer {key_from(self.options.api_key_env)}"
        return headers

    async def _send(self, method: str, path: str, content: bytes | None = None) -> Any:
        """Returns the parsed body of a 200; raises RetryableError or TargetError."""
        try:
            response = await self._pool.send(method, path, content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise exchange_error(error, self.endpoint, self.options.timeout_s) from None
        if response.status_code == 200:
            try:
                return read_json(response.content)
            except Unreadable:
                raise RetryableError("sent a body that is not JSON") from None
        message = error_message(response.content)
        number = shorten(response.headers.get("x-request-id", ""), 80)
        request_note = f" to request {number}" if number else ""
        answer = f"answered {response.status_code}{request_note}" + (f": {message}" if message else "")
        usage = error_usage(response.content)
        refused = is_refusal(response.status_code) and usage is None
        if response.status_code in PASSING_STATUS and not is_context_error(message):
            wait = retry_after(response.headers.get("retry-after"))
            refused = refused or message.startswith("Loading model")  # llama.cpp after a restart
            raise RetryableError(answer, wait, request_id=number, refused=refused, usage=usage)
        hint = ""
        if response.status_code in (401, 403):
            where = self.options.api_key_env
            hint = f" Check the key in {where}." if where else " Name its key's variable in api_key_env."
        text = f"{self.endpoint} {answer}.{hint}"
        raise TargetError(text, endpoint=self.endpoint, request_id=number, refused=refused)


def key_from(variable: str) -> str:
    """Returns the key in an environment variable; raises UsageError when it is unset or cannot be sent."""
    key = remember(os.environ.get(variable, "").strip())
    if not key:
        raise UsageError(f"The environment variable {variable}, named by api_key_env, is not set.")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"The environment variable {variable} holds characters that no key has.")
    return key


def _url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(
            f"base_url must be like http://127.0.0.1:8000/v1, got {shorten(base_url) or 'nothing'!r}."
        )
    return url


def _context(card: Any) -> int:
    """Returns the context size of a model card: vLLM's `max_model_len`, llama.cpp's `meta.n_ctx`; else 0."""
    named = (("max_model_len",), ("meta", "n_ctx"), ("meta", "n_ctx_train"))
    return next((size for path in named if (size := token_count(part(card, *path)))), 0)
