"""Any server with OpenAI's chat API: vLLM, llama.cpp's, Ollama, LM Studio, TGI, SGLang, Azure, a gateway."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson

from ragc.core.digest import digest
from ragc.core.event_loop import closes, is_on_loop
from ragc.core.redact import mask_keys, remember, shorten
from ragc.errors import CapabilityMissing, TargetStopped, TargetUnavailable, UnknownName, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch, parts_taker
from ragc.targets.options import ServerOptions, VllmOptions, with_variables
from ragc.targets.prices import FREE, Price
from ragc.targets.reasoning import Reasons
from ragc.targets.retry import Again, rate_of, with_tries
from ragc.targets.wire import (
    MOST_BYTES,
    Where,
    body_of,
    bound_tokens,
    failure,
    joined,
    read_json,
    read_reply,
    tokens_in,
)

if TYPE_CHECKING:
    import aiohttp

CAPABILITIES: frozenset[Capability] = frozenset({"schema", "logprobs", "seed", "prefix_cache"})
TOKENIZED = {"vllm": "prompt", "sglang": "prompt", "llamacpp": "content"}
"""The field for the text in `/tokenize` of a server, by the owner of its models."""
TOKENIZE_S = 5.0
"""Seconds that a server has to count the tokens of a text."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Show = Callable[[str], None]
"""Takes a part of a reply's text as it comes."""


class ServerTarget(Reasons):
    """What targets at servers have in common: `model` at `endpoint`, and how a request is tried.

    A kind builds what is sent (`prepare`) and gets the body of a completion for it (`answer`).
    """

    kind: str
    endpoint: str
    sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    def __init__(self, model: str, options: ServerOptions) -> None:
        self.name, self.model, self.options = f"{self.kind} {model}", model, options
        self.concurrency = options.concurrency
        sent = [dict(options.sent), list(options.omit), dict(options.query)]
        at = f"@{self.endpoint}" if self.endpoint else ""
        self._identity = options.identity or f"{model}{at}{f'#{digest(sent)[:12]}' if any(sent) else ''}"
        self._rate = rate_of(self.endpoint, model, options.requests_per_minute, options.tokens_per_minute)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint!r}, {self.model!r})"

    @property
    def where(self) -> Where:
        """Where requests go, for messages."""
        return Where(self.endpoint, self.model, self.options.api_key_env)

    def prepare(self, request: ChatRequest, *, stream: bool) -> Any:
        """Returns what is sent for `request`."""
        raise NotImplementedError

    async def answer(self, prepared: Any, show: Show | None) -> Any:
        """Returns the body of a completion; parts of its text go to `show` as they come. Raises Again."""
        raise NotImplementedError

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`, in parts where somebody takes them."""
        options, take, where = self.options, parts_taker.get(), self.where
        prepared, is_shown = self.prepare(request, stream=take is not None), False

        def show(part: str) -> None:
            nonlocal is_shown
            is_shown = True
            if take is not None:
                take(mask_keys(part))

        async def attempt() -> Reply:
            body = await self.answer(prepared, None if take is None else show)
            return read_reply(body, request, bound_tokens, where)

        size = request.sampling.max_tokens
        if self._rate is not None:
            size += sum(bound_tokens(message.content) for message in request.messages)
        reply = await with_tries(
            attempt, where.endpoint, tries=options.tries, total_s=options.total, rate=self._rate, size=size,
            may_repeat=lambda: not is_shown, sleep=self.sleep,
        )  # fmt: skip
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(request, name) and not getattr(reply, name) and (reply.text or name != "logprobs"):
                raise CapabilityMissing(
                    f'{where.endpoint} sent no {name}; add lacks = ["{name}"] to this target.'
                )
        return reply

    def count_tokens(self, text: str) -> int:
        """Returns a bound by the scripts of `text`."""
        return bound_tokens(text)


class ChatTarget(ServerTarget):
    """Sends requests for `model` to the server at `base_url`.

    Name, password and query of `base_url` are sent but never shown. Capabilities and context are the
    server's once it is open. Raises UsageError for an address that is none.
    """

    kind = "vllm"

    def __init__(self, base_url: str, model: str, options: VllmOptions = VllmOptions()) -> None:  # noqa: B008
        self.endpoint, self._query, self._login = read_address(base_url)
        if not model:
            raise UsageError(f"A vllm target needs the name of the model that {self.endpoint} serves.")
        super().__init__(model, options)
        self.capabilities, self.whole_context = options.correct(CAPABILITIES), options.context_tokens
        self.card: dict[str, Any] = {}
        self._counted: Callable[[str], int] = lru_cache(4096)(self._ask_tokens)
        self._ready = self._is_down = False
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, progress: Watch | None = None) -> None:
        """Asks the server for its models, at `base_url` and under its /v1. Sends no completion.

        Raises TargetUnavailable where no server answers, TargetStopped where it refuses, UnknownName where
        it does not have the model. A server without a list, such as a deployment of Azure, is taken as it is.
        """
        if self._ready:
            return
        found: Any = None
        for base in dict.fromkeys([self.endpoint, f"{self.endpoint}/v1"]):
            try:
                found = await with_tries(
                    partial(self._get, f"{base}/models"), self.endpoint, tries=1, total_s=self.options.total
                )
            except TargetStopped as error:
                if error.status not in (404, 405):
                    raise
            except TargetUnavailable as error:
                self._is_down = True
                raise TargetUnavailable(
                    f"{str(error)[:-1]}; start the server or correct base_url.", endpoint=self.endpoint
                ) from None
            cards = found.get("data") if isinstance(found, dict) else None
            if isinstance(cards, list):
                self.use_card(self._card_in(cards))
                self.endpoint, self._ready, self._is_down = base, True, False
                return
        if found is not None:
            raise TargetStopped(
                f"{self.endpoint}/models does not list models; base_url usually ends in /v1.",
                endpoint=self.endpoint,
            )
        self._ready = True

    async def _get(self, url: str) -> Any:
        """Returns the JSON value of an answer with status 200; "" for what is none."""
        async with self._exchange("GET", url, None) as response:
            try:
                return read_json(await response.read(), response.content_type)
            except Again:
                return ""

    def _card_in(self, cards: Sequence[Any]) -> dict[str, Any]:
        """Returns the model's entry in the server's list. Raises UnknownName."""
        named = {str(card.get("id")): card for card in cards}
        card = named.get(self.model) or named.get(f"{self.model}:latest")
        if card is None and ".azure." not in self.endpoint:  # whose deployments have names of their own
            raise UnknownName(f"model at {self.endpoint}", self.model, [shorten(name, 200) for name in named])
        return dict(card or {})

    def use_card(self, card: Mapping[str, Any]) -> None:
        """Takes context and capabilities from the model's entry in the server's list."""
        self.card, meta = dict(card), card.get("meta") or {}
        sizes = [card.get(name) for name in ("max_model_len", "context_length")]
        sizes += [meta.get(name) for name in ("n_ctx", "n_ctx_train")]
        self.whole_context = self.options.context_tokens or next(filter(None, map(tokens_in, sizes)), 0)
        if card.get("owned_by") == "vllm":
            self.capabilities = self.options.correct({*CAPABILITIES, "prompt_logprobs"})

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; a server that was down when it was opened is opened first."""
        if self._is_down:
            await self.open()
        return await super().complete(request)

    def prepare(self, request: ChatRequest, *, stream: bool) -> bytes:
        """Returns the body of `request`."""
        options = self.options
        return orjson.dumps(body_of(request, self.model, options.sent, options.omit, stream=stream))

    async def answer(self, prepared: bytes, show: Show | None) -> Any:
        """Returns the body of a completion; parts of its text go to `show` as they come. Raises Again."""
        chunks: list[Any] = []
        async with self._exchange("POST", f"{self.endpoint}/chat/completions", prepared) as response:
            if show is None or "event-stream" not in response.content_type:
                return read_json(await response.read(), response.content_type)
            async for line in response.content:
                text = line.removeprefix(b"data:").strip()
                if not line.startswith(b"data:") or text in (b"", b"[DONE]"):
                    continue
                chunk = read_json(text, response.content_type)
                chunks.append(chunk)
                for choice in (chunk.get("choices") or ())[:1]:
                    if isinstance(part := (choice.get("delta") or {}).get("content"), str) and part:
                        show(part)
        return joined(chunks)

    @asynccontextmanager
    async def _exchange(
        self, method: str, url: str, content: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Opens an answer with status 200; raises what any other becomes."""
        import aiohttp

        try:
            session = self._client()
            async with session.request(method, url, data=content, **self._how) as response:
                if not 200 <= response.status < 300:
                    said = await response.content.read(MOST_BYTES)
                    raise failure(response.status, said, response.headers, self.where)
                yield response
        except aiohttp.ClientConnectorCertificateError as error:
            raise TargetStopped(
                untrusted(self.endpoint, error), endpoint=self.endpoint, refused=True
            ) from None
        except aiohttp.ClientConnectorSSLError as error:
            raise TargetStopped(
                f"{self.endpoint} speaks no TLS ({shorten(str(error), 120)}); write http:// in base_url.",
                endpoint=self.endpoint,
                refused=True,
            ) from None
        except aiohttp.ClientProxyConnectionError as error:
            raise TargetStopped(
                f"{self.endpoint} is not reached{self._through} ({shorten(str(error), 120)}); correct that "
                "variable, or name the server in NO_PROXY.",
                endpoint=self.endpoint,
                refused=True,
            ) from None
        except TimeoutError as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            late = "did not connect" if connecting else f"gave no answer within {self.options.timeout_s:g} s"
            raise Again(f"{late}{self._through}", refused=connecting) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            why = shorten(str(error), 120) or type(error).__name__
            raise Again(f"does not answer{self._through} ({why})", refused=unsent) from None

    def _client(self) -> aiohttp.ClientSession:
        """Returns the session on the running loop; connections belong to one loop at a time."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            import aiohttp

            options, self._loop = self.options, loop
            proxy, variable = proxy_of(self.endpoint)
            self._through = f" through the proxy {shorten(proxy)} of {variable}" if proxy else ""
            self._how: dict[str, Any] = {
                "allow_redirects": False,
                "proxy": proxy or None,
                "params": self._query | with_variables(options.query) or None,
            }
            self._session = session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=options.concurrency,
                    ssl=ssl.create_default_context() if self.endpoint.startswith("https:") else True,
                ),
                headers={"content-type": "application/json", **self._login, **headers_of(options)},
                timeout=aiohttp.ClientTimeout(
                    None, sock_connect=options.connect_timeout_s, sock_read=options.timeout_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=2**20,
            )
            if is_on_loop():
                closes(session.close)
        return self._session

    def table_price(self) -> Price:
        """Returns a price of 0: a server of the user's own is free unless it is priced."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the tokens of a `text` that is not all ASCII by the server's tokenizer, else a bound.

        The bound fits English; of other scripts it counts up to six times too many.
        """
        is_asked = not text.isascii() and self.card.get("owned_by") in TOKENIZED
        return self._counted(text) if is_asked else bound_tokens(text)

    def _ask_tokens(self, text: str) -> int:
        import httpx

        try:
            answer = httpx.post(
                f"{self.endpoint.removesuffix('/v1')}/tokenize",
                json={"model": self.model, TOKENIZED[self.card["owned_by"]]: text},
                headers={**self._login, **headers_of(self.options)},
                params=self._query | with_variables(self.options.query),
                proxy=proxy_of(self.endpoint)[0] or None,
                trust_env=self.endpoint.startswith("https:"),  # for SSL_CERT_FILE
                timeout=TOKENIZE_S,
            )
            body = answer.raise_for_status().json()
            return int(body.get("count") or len(body["tokens"]))
        except (httpx.HTTPError, OSError, ValueError, LookupError, TypeError, AttributeError):
            self._counted = bound_tokens  # it is asked once whether it counts
            return bound_tokens(text)

    async def aclose(self) -> None:
        """Closes the connections; a later request opens new ones."""
        self._ready, session, self._session = False, self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()


def read_address(base_url: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Returns `base_url` without what people copy with it, its query, and the header of its login.

    Raises UsageError for what is no http or https address.
    """
    try:
        parts = urlsplit(base_url.strip())
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, has_host = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not has_host:
        found = shorten(base_url) or "nothing"
        raise UsageError(f"base_url must be like http://127.0.0.1:8000/v1, got {found!r}.")
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    header = {"authorization": f"Basic {b64encode(login).decode()}"} if parts.username else {}
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host}{path}", dict(parse_qsl(parts.query)), header


def untrusted(endpoint: str, error: BaseException) -> str:
    """Returns the message on a certificate that is not trusted."""
    return (
        f"The certificate of {endpoint} is not trusted ({shorten(str(error), 120)}); name the file of its "
        "authority in the environment variable SSL_CERT_FILE."
    )


def proxy_of(url: str) -> tuple[str, str]:
    """Returns the proxy that the environment names for `url`, and the variable that does; "" for none."""
    parts, proxies = urlsplit(url), getproxies()
    host = parts.hostname or ""
    scheme = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(scheme, "")
    if not proxy or host in LOOPBACK or proxy_bypass(host):
        return "", ""
    return proxy if "://" in proxy else f"http://{proxy}", f"{scheme.upper()}_PROXY"


def headers_of(options: ServerOptions) -> dict[str, str]:
    """Returns the key and the headers of `options`, in which a "$NAME" is a secret of the environment.

    Raises UsageError for a variable that is not set, and for what cannot be sent.
    """
    variable = options.api_key_env
    key = remember(os.environ.get(variable, "").strip())
    if variable and not (key and key.isascii() and key.isprintable()):
        state = "holds characters that no key has" if key else "is not set"
        raise UsageError(f"The environment variable {variable}, named by api_key_env, {state}.")
    headers = {name.lower(): value for name, value in with_variables(options.headers).items()}
    if bad := [name for name, value in headers.items() if not f"{name}{value}".isprintable()]:
        raise UsageError(f"The header {shorten(bad[0])!r} holds characters that no header has.")
    return ({"authorization": f"Bearer {key}"} if key else {}) | headers
