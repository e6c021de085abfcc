"""The embedded target: a GGUF model in this process, run and batched by llama.cpp's own server (`xllamacpp`).

The server is called in the process and in threads, not over its socket. Requests are streamed, because the
stream's callback is the only place where one can be given up: when its caller is cancelled, at a timeout and
at exit. Concurrent requests share the model by continuous batching, and its `slots` share long beginnings of
prompts.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import httpx

from ragc.core.digest import digest
from ragc.core.extras import EXTRAS
from ragc.core.files import cache_home, make_private
from ragc.core.text import repair_surrogates
from ragc.downloads import (
    MODEL,
    SMOLLM2,
    default_weights,
    fetch_hub_file,
    is_hub_file,
    noted_digest,
)
from ragc.errors import RequestRefused, TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, TargetKind, Watch, parts_taker
from ragc.targets.embedded.slots import Slots
from ragc.targets.options import EmbeddedOptions, TargetSpec
from ragc.targets.prices import FREE, Price
from ragc.targets.reasoning import Reasons
from ragc.targets.retry import with_tries
from ragc.targets.wire import Where, body_of, bound_tokens, joined, read_reply

T = TypeVar("T")
_CAPABILITIES: frozenset[Capability] = frozenset({"schema", "logprobs", "prefix_cache", "seed"})
_TRAINED_CONTEXT = 8192
_SETTINGS = {
    "ui": False,
    "endpoint_slots": True,
    "fit_params": False,  # otherwise llama.cpp silently shrinks a context that does not fit
    "ctx_shift": False,
    "warmup": False,
    "cache_ram_mib": 0,  # the default is 8 GiB of old prompts
    "enable_reasoning": 0,
    "force_pure_content_parser": True,  # a reply that looks like a tool call is still text
}
_GUIDANCE = {
    "lenient": True,  # a keyword that LLGuidance cannot enforce is left to who reads the reply
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}


class EmbeddedTarget(Reasons):
    """Answers from the GGUF file `model`, a file of the Hub (`owner/repository:file.gguf`), or SmolLM2-135M.

    The options are those of `EmbeddedOptions`. Targets of one file and one size share one loaded model. If a
    request leaves top_k and min_p open they are off, as on a vLLM server.
    """

    template_tokens = 16
    """Tokens that the chat template puts around a message, at most: prompts leave room for them."""

    def __init__(self, model: str | Path = "", **options: Any) -> None:
        self.named, self.options = str(model), EmbeddedOptions.of(options)
        self.model = Path(self.named.rpartition(":")[2]).stem if self.named else MODEL
        self.name, self.capabilities = f"embedded {self.model}", _CAPABILITIES
        self.whole_context, self.concurrency = self.options.context, self.options.parallel
        if not self.named and self.whole_context > _TRAINED_CONTEXT:
            raise UsageError(
                f"{MODEL} takes {_TRAINED_CONTEXT} tokens at most, got context {self.whole_context}."
            )
        self._held: LoadedModel | None = None

    def __deepcopy__(self, memo: object) -> EmbeddedTarget:
        return self

    def __repr__(self) -> str:
        return f"EmbeddedTarget({self.named or self.model!r}, context={self.whole_context})"

    def _path(self, progress: Watch | None = None) -> Path:
        """Returns the file of the weights, fetched where it is missing. Raises TargetUnavailable."""
        path = Path(self.named).expanduser()
        if not self.named:
            path = default_weights(progress)
        elif is_hub_file(self.named) and not path.exists():
            path = fetch_hub_file(self.named)
        if not path.is_file():
            raise TargetUnavailable(f"There is no file {path}; name a GGUF file as the target's model.")
        return path.resolve()

    @cached_property
    def _sha256(self) -> str:
        return noted_digest(self._path()) if self.named else SMOLLM2.sha256

    @property
    def plain_identity(self) -> str:
        """The model, its weights, and what is sent with every request. Raises TargetUnavailable."""
        sent = dict(self.options.sent)
        return f"{self.model}@sha256:{self._sha256}{f'#{digest(sent)[:12]}' if sent else ''}"

    async def open(self, progress: Watch | None = None) -> None:
        """Fetches the weights if they are missing, and loads the model."""
        await self._load(progress)

    async def _load(self, progress: Watch | None = None) -> LoadedModel:
        """Returns the loaded model."""

        def work() -> LoadedModel:
            library()  # before a useless download
            return load(self._path(progress), self.options, self._sha256)

        if self._held is None:
            self._held = await _in_thread(work)
        return self._held

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`. Opens the target first if needed.

        With a schema, strings and lists that ended at a limit of ours make the reply one of `length`. Raises
        RequestRefused for a prompt beyond the context, TargetUnavailable after `timeout_s` seconds.
        """
        tokens, schema = request.sampling.max_tokens, request.schema
        body = {"top_k": 0, "min_p": 0.0, "cache_prompt": True, **body_of(replace(request, schema=None), "")}
        body["chat_template_kwargs"] = dict(self.options.template_variables)
        if schema is not None:  # llama.cpp would not hold to a response_format
            body["grammar"] = grammar(schema, tokens)
        model, stop, take = await self._load(), threading.Event(), parts_taker.get()

        async def attempt() -> Reply:
            answer = await _in_thread(lambda: model.ask(body, stop.is_set, take))
            return read_reply(answer, request, self.count_tokens, Where(self.name, self.model))

        try:
            reply = await with_tries(attempt, self.name, tries=1, total_s=self.options.timeout_s)
        except TargetUnavailable as error:
            text = str(error).removesuffix(".")
            raise TargetUnavailable(f"{text}; lower max_tokens or raise the option timeout_s.") from None
        finally:
            stop.set()
        prompt = reply.usage.prompt
        if reply.finish == "length" and prompt + tokens > self.whole_context:
            raise RequestRefused(
                f"The prompt has {prompt} tokens and the reply may have {tokens}, more than the context of "
                f"{self.whole_context}; shorten the prompt, lower max_tokens or raise the target's context.",
                "too long",
            )
        if schema is not None and reply.finish == "stop":
            with suppress(ValueError, RecursionError):  # who reads the reply says what is wrong with it
                if is_full(json.loads(reply.text), tokens):
                    return replace(reply, finish="length")
        return reply

    def table_price(self) -> Price:
        """Returns a price of 0: the model runs in this process."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the exact count once open, else a bound by its scripts."""
        return bound_tokens(text) if self._held is None else self._held.count(text)

    async def aclose(self) -> None:
        """Frees the model unless another target of this process uses it; `open` loads it again."""
        self._held = None


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own, which the interpreter waits for: it may be inside llama.cpp.

    An executor would be joined before its requests are told that the program ends.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only given up

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # passed on to the awaiting caller
            future.set_exception(error)

    threading.Thread(
        target=copy_context().run,  # with who listens to notices
        args=(run,),
        name="ragc-embedded",
        daemon=False,
    ).start()
    return await asyncio.wrap_future(future)


def grammar(schema: Mapping[str, Any], tokens: int) -> str:
    """Returns the grammar of `schema` for a reply of at most `tokens`, as llama.cpp enforces it."""
    limited = {**with_limits(schema, tokens), "x-guidance": _GUIDANCE}
    return f"%llguidance {{}}\nstart: %json {json.dumps(limited)}"


def with_limits(node: Any, tokens: int) -> Any:
    """Returns the schema `node` with the limits that it lacks, for a reply of at most `tokens`.

    So a small model that repeats itself still closes its brackets.
    """
    if isinstance(node, list):
        return [with_limits(part, tokens) for part in node]
    if not isinstance(node, Mapping):
        return node
    limits: dict[str, Any] = {}
    if node.get("type") == "object":
        limits = {"additionalProperties": not node.get("properties")}
    elif node.get("type") == "array":
        limits = {"maxItems": max(_items(tokens), node.get("minItems", 0))}
    elif node.get("type") == "string" and not {"format", "pattern", "enum", "const"} & node.keys():
        limits = {"maxLength": max(_characters(tokens), node.get("minLength", 0))}
    return limits | {
        name: value if name in ("enum", "const", "default", "examples") else with_limits(value, tokens)
        for name, value in node.items()
    }


def is_full(value: Any, tokens: int) -> bool:
    """Returns whether a string or a list inside `value` ended at a limit that `with_limits` sets."""
    if isinstance(value, str):
        return len(value) == _characters(tokens)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    full = isinstance(value, list) and len(value) == _items(tokens)
    return full or any(is_full(part, tokens) for part in inside)


def _characters(tokens: int) -> int:
    return max(64, 5 * tokens // 2)


def _items(tokens: int) -> int:
    return max(4, tokens // 8)


class LoadedModel:
    """A model that llama.cpp has loaded, and its server, whose key is known to this process only."""

    def __init__(self, path: Path, options: EmbeddedOptions, sha256: str) -> None:
        binding, key = library(), secrets.token_urlsafe(24)
        folder, params = make_private(cache_home() / "prefixes"), binding.CommonParams()
        for name, value in _SETTINGS.items():
            setattr(params, name, value)
        params.model.path, params.verbosity = str(path), -1 if options.quiet else 3
        params.n_parallel, params.n_ctx = options.parallel, options.context * options.parallel
        params.reasoning_format = binding.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
        params.api_keys, params.slot_save_path = [key], f"{folder}{os.sep}"
        threads = options.threads or cores()
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        try:
            self.server: Any = binding.Server(params)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise TargetUnavailable(
                f"llama.cpp could not load {path} ({path.stat().st_size >> 20} MiB) with {options.parallel} "
                f"slots of {options.context} tokens: the file may be cut short or unknown to it, or "
                "memory too small; lower context or parallel, or use another model."
            ) from error
        client = httpx.Client(
            base_url=str(self.server.listening_address),
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )
        # a server that was never asked may never end
        self.server.handle_completions({"prompt": [1], "n_predict": 1}, lambda part: False)
        engine = [sha256, binding.__version__, str(binding.get_system_info()), threads]
        self._slots = Slots(options.parallel, folder, engine, partial(_act, client))
        self.count = lru_cache(maxsize=4096)(partial(_count, client))

    def ask(
        self, body: Mapping[str, Any], given_up: Callable[[], bool], take: Callable[[str], None] | None
    ) -> dict[str, Any]:
        """Returns the completion that `body` asks for; `take` gets the parts of its text as they come.

        Raises RequestRefused, and Again where it was given up.
        """
        chunks: list[Any] = []

        def part(chunk: Any) -> bool:
            chunks.append(chunk)
            if take is not None:
                for choice in chunk.get("choices") or ():
                    take(choice["delta"].get("content") or "")
            return given_up() or not threading.main_thread().is_alive()

        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._slots.take(str(body["messages"][:-1])) as slot:
            try:
                last = self.server.handle_chat_completions({**streamed, "id_slot": slot}, part)
            except (ValueError, TypeError) as error:
                raise RequestRefused(f"llama.cpp refused a request: {error}.", "failed") from error
        return joined([*chunks, last] if isinstance(last, dict) else chunks)


def _act(client: httpx.Client, slot: int, action: str, name: str) -> bool:
    with suppress(httpx.HTTPError, ValueError):
        answer = client.post(f"/slots/{slot}?action={action}", json={"filename": name})
        return bool(answer.json().get(f"n_{action}d"))
    return False


def _count(client: httpx.Client, text: str) -> int:
    try:
        return len(client.post("/tokenize", json={"content": repair_surrogates(text)}).json()["tokens"])
    except httpx.HTTPError:  # where this machine has no network at all, not even its own address
        return bound_tokens(text)


_loaded: WeakValueDictionary[Any, LoadedModel] = WeakValueDictionary()
_loading = threading.Lock()


def load(path: Path, options: EmbeddedOptions, sha256: str) -> LoadedModel:
    """Returns the model at `path`, which all targets of that file and those sizes share. Blocks."""
    key = (path, options.context, options.parallel, options.threads, options.quiet)
    with _loading:
        model = _loaded[key] = _loaded.get(key) or LoadedModel(path, options, sha256)
    return model


@atexit.register
def _end_threads() -> None:
    """Ends llama.cpp's threads, after the requests in progress."""
    for model in list(_loaded.values()):
        model.server = None


def library() -> Any:
    """Returns the module of llama.cpp's binding. Raises TargetUnavailable where it is not installed.

    OpenMP's threads sleep while they wait for each other, where the user has not said otherwise: on a shared
    machine those that spin block each other. OpenMP reads this once, when it is loaded.
    """
    unset = "OMP_WAIT_POLICY" not in os.environ
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import xllamacpp
    except ImportError:
        raise TargetUnavailable(
            "The embedded target needs xllamacpp, which is not installed: pip install 'ragc[embedded]'."
        ) from None
    finally:
        if unset:
            del os.environ["OMP_WAIT_POLICY"]
    return xllamacpp


def cores() -> int:
    """Returns the physical cores that this process may use, by its affinity and its quota."""
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    allowed = len(mine)
    with suppress(OSError, ValueError):
        siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
        allowed = len({Path(siblings.format(cpu)).read_text("ascii") for cpu in mine})
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        allowed = min(allowed, math.ceil(int(quota) / int(period)))
    return max(1, allowed)


def _build(spec: TargetSpec) -> EmbeddedTarget:
    if spec.base_url:
        raise UsageError('An embedded target has no base_url; use kind = "vllm" for a server.')
    is_path = spec.model and not is_hub_file(spec.model)
    return EmbeddedTarget(spec.base / spec.model if is_path else spec.model, **spec.options)


KIND = TargetKind(
    "embedded",
    EmbeddedOptions,
    _build,
    modules=EXTRAS["embedded"],
    model_file=True,
    default_weights="SmolLM2-135M-Instruct",
)
