"""Any server with OpenAI's chat API: vLLM, llama.cpp's, Ollama, LM Studio, TGI, SGLang, Azure, a gateway."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener, getproxies, proxy_bypass

import orjson

from ragc.core.digest import digest
from ragc.core.event_loop import closes, closes_after, is_on_loop
from ragc.core.redact import mask_keys, remember, shorten
from ragc.errors import CapabilityMissing, TargetStopped, TargetUnavailable, UnknownName, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch, parts_taker
from ragc.targets.options import ServerOptions, VllmOptions, with_variables
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

    from ragc.targets.prices import Price

CAPABILITIES: frozenset[Capability] = frozenset({"schema", "logprobs", "seed", "prefix_cache"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MOST_REPLY_BYTES = 64 << 20
"""Bytes of a reply, decompressed."""

TOKENIZE_S = 5.0
"""Seconds that a server has to count the tokens of a text."""

_TOKENIZERS: Mapping[str, Callable[[str, str], dict[str, str]]] = {
    "vllm": lambda model, text: {"model": model, "prompt": text},
    "sglang": lambda model, text: {"model": model, "prompt": text},
    "llamacpp": lambda model, text: {"content": text},
}
"""What `/tokenize` of a server takes, by the owner of its models."""


class ChatTarget(Reasons):
    """Sends requests for `model` to the server at `base_url`.

    Name, password and query of `base_url` are sent but never shown. Capabilities, context and tokenizer are
    the server's once it is open. Raises UsageError for an address that is none.
    """

    def __init__(self, base_url: str, model: str, options: VllmOptions = VllmOptions()) -> None:  # noqa: B008
        self.endpoint, self._query, self._login = read_address(base_url)
        if not model:
            raise UsageError(f"A vllm target needs the name of the model that {self.endpoint} serves.")
        self.name, self.model, self.options = f"vllm {model}", model, options
        self.capabilities, self.concurrency = options.correct(CAPABILITIES), options.concurrency
        self.whole_context = options.context_tokens
        own = [dict(options.sent), *filter(None, [list(options.omit), dict(options.query)])]
        mark = f"#{digest(own if len(own) > 1 else own[0])[:12]}" if any(own) else ""
        self._identity = options.identity or f"{model}@{self.endpoint}{mark}"
        self._rate = rate_of(self.endpoint, model, options.requests_per_minute, options.tokens_per_minute)
        self._ready, self._owner = False, ""
        self._counted = lru_cache(4096)(self._ask_tokens)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keep: Callable[[], object] = lambda: None

    def __deepcopy__(self, memo: object) -> ChatTarget:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint!r}, {self.model!r})"

    @property
    def _where(self) -> Where:
        return Where(self.endpoint, self.model, self.options.api_key_env)

    @property
    def plain_identity(self) -> str:
        """The model, the address, and what is sent with every request."""
        return self._identity

    async def open(self, progress: Watch | None = None) -> None:
        """Asks the server for its models, at `base_url` and under its /v1. Sends no completion.

        Raises TargetUnavailable where no server answers, TargetStopped where it refuses, UnknownName where
        it does not have the model. A server without a list, such as a deployment of Azure, is taken as it is.
        """
        found: Any = None
        for base in () if self._ready else dict.fromkeys([self.endpoint, f"{self.endpoint}/v1"]):
            try:
                get = partial(self._send, "GET", f"{base}/models")
                found = await with_tries(get, self.endpoint, tries=1, total_s=self.options.total)
            except TargetStopped as error:
                if " answered 404" not in str(error) and " answered 405" not in str(error):
                    raise
                continue
            except TargetUnavailable as error:
                if "not JSON" in str(error) and not base.endswith("/v1"):
                    continue
                text = f"{str(error)[:-1]}; start the server or correct base_url."
                raise TargetUnavailable(text, endpoint=self.endpoint) from None
            if isinstance(found, dict) and isinstance(found.get("data"), list):
                self.endpoint = base
                self._read_card({str(card.get("id")): card for card in found["data"]})
                break
        else:
            if found is not None:
                text = f"{self.endpoint}/models does not list models; base_url usually ends in /v1."
                raise TargetStopped(text, endpoint=self.endpoint)
        self._ready = True

    def _read_card(self, cards: Mapping[str, Any]) -> None:
        """Takes context, capabilities and tokenizer from the server's list of models."""
        card = cards.get(self.model) or cards.get(f"{self.model}:latest")
        if card is None and ".azure." not in self.endpoint:  # whose deployments have names of their own
            raise UnknownName(f"model at {self.endpoint}", self.model, [shorten(name, 200) for name in cards])
        card, meta = card or {}, (card or {}).get("meta") or {}
        named = (
            card.get("max_model_len"),
            card.get("context_length"),
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),
        )
        self.whole_context = self.options.context_tokens or next(filter(None, map(tokens_in, named)), 0)
        self._owner = str(card.get("owned_by"))
        if self._owner == "vllm":
            self.capabilities = self.options.correct({*CAPABILITIES, "n", "prompt_logprobs"})

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`, in parts where somebody takes them."""
        options, take = self.options, parts_taker.get()
        body = body_of(request, self.model, options.sent, options.omit)
        if take is not None:
            body["stream"] = True
            if "stream_options" not in options.omit:
                body.setdefault("stream_options", {"include_usage": True})
        content, shown = orjson.dumps(body), list[str]()

        async def attempt() -> Reply:
            url = f"{self.endpoint}/chat/completions"
            sent = (
                self._send("POST", url, content) if take is None else self._parts(url, content, take, shown)
            )
            return read_reply(await sent, request, bound_tokens, self._where)

        size = request.sampling.max_tokens
        if self._rate.tokens:
            size += sum(bound_tokens(message.content) for message in request.messages)
        reply = await with_tries(
            attempt, self.endpoint, tries=options.tries, total_s=options.total, rate=self._rate, size=size,
            may_repeat=lambda: not shown, sleep=self.sleep,
        )  # fmt: skip
        return checked(reply, request, self.endpoint)

    async def _send(self, method: str, url: str, content: bytes | None = None) -> Any:
        """Returns the JSON value of an answer with status 200."""
        async with self._exchange(method, url, content) as response:
            return read_json(await _whole(response))

    async def _parts(self, url: str, content: bytes, take: Callable[[str], None], shown: list[str]) -> Any:
        """Returns the completion that comes in parts; those of its text go to `take`, the last to `shown`."""
        chunks: list[Any] = []
        async with self._exchange("POST", url, content) as response:
            if "event-stream" not in response.content_type:
                return read_json(await _whole(response))
            async for line in response.content:
                text = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                if not text or text == b"[DONE]":
                    continue
                chunks.append(chunk := read_json(text))
                for choice in (chunk.get("choices") or ())[:1]:
                    if isinstance(part := (choice.get("delta") or {}).get("content"), str) and part:
                        shown[:] = [part]
                        take(mask_keys(part))
        return joined(chunks)

    @asynccontextmanager
    async def _exchange(
        self, method: str, url: str, content: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Opens an answer with status 200; raises what any other becomes."""
        import aiohttp

        session = self._client()
        try:
            async with session.request(method, url, data=content, **self._how) as response:
                if not 200 <= response.status < 300:
                    said = await response.content.read(MOST_BYTES)
                    raise failure(response.status, said, response.headers, self._where)
                yield response
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise TargetStopped(
                untrusted(self.endpoint, error), endpoint=self.endpoint, refused=True
            ) from None
        except TimeoutError as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            late = "did not connect" if connecting else f"gave no answer within {self.options.timeout_s:g} s"
            raise Again(late, refused=connecting) from None
        except aiohttp.InvalidURL:
            raise UsageError(
                f"base_url must be like http://127.0.0.1:8000/v1, found {self.endpoint!r}."
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            why = shorten(str(error), 120) or type(error).__name__
            raise Again(f"does not answer ({why})", refused=unsent) from None

    def _client(self) -> aiohttp.ClientSession:
        """Returns the session on the running loop; connections belong to one loop at a time."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            import aiohttp

            options, self._loop = self.options, loop
            timeout = aiohttp.ClientTimeout(
                None, sock_connect=options.connect_timeout_s, sock_read=options.timeout_s
            )
            self._how: dict[str, Any] = {
                "allow_redirects": False,
                "proxy": proxy_of(self.endpoint),
                "params": self._query | with_variables(options.query) or None,
            }
            secure = trusted() if self.endpoint.startswith("https:") else True
            self._session = session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=options.concurrency, ssl=secure),
                headers=self._headers(),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=2**20,
            )
            closes(self)
            if is_on_loop():
                self._keep = closes_after(self, session.close)
        return self._session

    def _headers(self) -> dict[str, str]:
        return {"content-type": "application/json", **self._login, **headers_of(self.options)}

    def table_price(self) -> Price:
        """Returns a price of 0: a server of the user's own is free unless it is priced."""
        from ragc.targets.prices import FREE

        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the tokens of `text` by the server's tokenizer, else a bound by its scripts."""
        return self._counted(text) if text and self._owner in _TOKENIZERS else bound_tokens(text)

    def _ask_tokens(self, text: str) -> int:
        url = f"{self.endpoint.removesuffix('/v1')}/tokenize"
        content = orjson.dumps(_TOKENIZERS[self._owner](self.model, text))
        proxy, scheme = proxy_of(url), url.partition(":")[0]
        opener = build_opener(
            ProxyHandler({scheme: proxy} if proxy else {}),
            HTTPSHandler(context=trusted() if scheme == "https" else None),
        )
        try:
            request = Request(url, content, self._headers())  # noqa: S310 - the address was checked
            with opener.open(request, timeout=TOKENIZE_S) as answer:
                body = orjson.loads(answer.read(MOST_REPLY_BYTES))
            return int(body.get("count") or len(body["tokens"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self._owner = ""  # it is asked once whether it counts
            return bound_tokens(text)

    async def aclose(self) -> None:
        """Closes the connections; a later request opens new ones."""
        self._ready, session, self._session = False, self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()
            self._keep()


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Returns the whole body. Raises Again beyond `MOST_REPLY_BYTES`."""
    read = bytearray()
    async for block in response.content.iter_any():
        read += block
        if len(read) > MOST_REPLY_BYTES:
            raise Again(f"sent more than {MOST_REPLY_BYTES >> 20} MiB")
    return bytes(read)


def read_address(base_url: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Returns `base_url` without what people copy with it, its query, and the header of its login.

    Raises UsageError for what is no http or https address.
    """
    parts = urlsplit("")
    host = port = scheme = None
    with suppress(ValueError):
        parts = urlsplit(base_url.strip())
        host, port, scheme = parts.hostname, parts.port, parts.scheme
    if scheme not in ("http", "https") or not host:
        found = shorten(base_url) or "nothing"
        raise UsageError(f"base_url must be like http://127.0.0.1:8000/v1, got {found!r}.")
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    header = {"authorization": f"Basic {b64encode(login).decode()}"} if parts.username else {}
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    shown = f"[{host}]" if ":" in host else host
    endpoint = f"{scheme}://{shown}{f':{port}' if port else ''}{path}"
    return endpoint, dict(parse_qsl(parts.query)), header


def untrusted(endpoint: str, error: BaseException) -> str:
    """Returns the message on a certificate that is not trusted."""
    return (
        f"The certificate of {endpoint} is not trusted ({shorten(str(error), 120)}); name the file of its "
        "authority in the environment variable SSL_CERT_FILE."
    )


def trusted() -> ssl.SSLContext:
    """Returns a context with the system's authorities and those that the environment names."""
    context = ssl.create_default_context()
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if path := os.environ.get(name):
            try:
                context.load_verify_locations(**{"capath" if Path(path).is_dir() else "cafile": path})
            except OSError as error:
                raise UsageError(f"{name} names {path!r}, which holds no certificates ({error}).") from None
    return context


def proxy_of(url: str) -> str | None:
    """Returns the proxy that the environment names for `url`."""
    parts, proxies = urlsplit(url), getproxies()
    host = parts.hostname or ""
    return None if host in LOOPBACK or proxy_bypass(host) else proxies.get(parts.scheme) or proxies.get("all")


def key_from(variable: str) -> str:
    """Returns the key in an environment variable; raises UsageError when it is unset or cannot be sent."""
    key = remember(os.environ.get(variable, "").strip())
    if not key:
        raise UsageError(f"The environment variable {variable}, named by api_key_env, is not set.")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"The environment variable {variable} holds characters that no key has.")
    return key


def headers_of(options: ServerOptions) -> dict[str, str]:
    """Returns the key and the headers of `options`, in which a "$NAME" is a secret of the environment."""
    key = {"authorization": f"Bearer {key_from(options.api_key_env)}"} if options.api_key_env else {}
    return key | {name.lower(): value for name, value in with_variables(options.headers).items()}


def checked(reply: Reply, request: ChatRequest, endpoint: str) -> Reply:
    """Returns `reply`, or raises CapabilityMissing without the log-probabilities that were requested."""
    if request.logprobs and reply.text and not reply.logprobs:
        raise CapabilityMissing(f'{endpoint} sent no logprobs; add lacks = ["logprobs"] to this target.')
    if request.prompt_logprobs and not reply.prompt_logprobs:
        raise CapabilityMissing(
            f"{endpoint} sent no prompt_logprobs; vLLM has them, and this server may not."
        )
    return reply
