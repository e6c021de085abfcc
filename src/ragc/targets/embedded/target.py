"""The embedded target: a GGUF model in this process, run and batched by llama.cpp's own server (`xllamacpp`).

The server is called in the process and not over its socket. Concurrent requests share the model by continuous
batching, and its `slots` share long beginnings of prompts.
"""

from __future__ import annotations

import asyncio
import atexit
import http.client
import json
import math
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

from ragc.core.digest import digest
from ragc.core.home import cache_home, make_private
from ragc.downloads.hub import fetch_hub_file, is_hub_file
from ragc.downloads.weights import Watch, noted_digest
from ragc.errors import RequestRefused, TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, parts_taker
from ragc.targets.embedded.options import EmbeddedOptions
from ragc.targets.embedded.schema import grammar, is_cut
from ragc.targets.embedded.slots import Slots
from ragc.targets.embedded.weights import MODEL, SMOLLM2, default_weights
from ragc.targets.openai_wire import read_reply, request_body
from ragc.targets.thinking import ThinkingRoom, identity_mark, room_left
from ragc.targets.token_price import FREE, Price

T = TypeVar("T")
Post = Callable[[str, Mapping[str, Any]], dict[str, Any]]
_CAPABILITIES: frozenset[Capability] = frozenset({"schema", "logprobs", "prefix_cache", "seed"})
_TRAINED_CONTEXT = 8192


class EmbeddedTarget(ThinkingRoom):
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
        self.price = dict(self.options.price) or None
        if not self.named and self.whole_context > _TRAINED_CONTEXT:
            raise UsageError(
                f"{MODEL} takes {_TRAINED_CONTEXT} tokens at most, got context {self.whole_context}."
            )
        self._held: _Loaded | None = None
        self._path: Path | None = None
        self._opening = threading.Lock()

    def __deepcopy__(self, memo: object) -> EmbeddedTarget:
        return self

    def __repr__(self) -> str:
        return f"EmbeddedTarget({self.named or self.model!r}, context={self.whole_context})"

    def path(self, progress: Watch | None = None) -> Path:
        """Returns the file of the weights, fetched where it is missing. Raises TargetUnavailable."""
        if self._path is None:
            path = Path(self.named).expanduser()
            if not self.named:
                path = default_weights(progress)
            elif is_hub_file(self.named) and not path.exists():
                path = fetch_hub_file(self.named)
            if not path.is_file():
                raise TargetUnavailable(f"There is no file {path}; name a GGUF file as the target's model.")
            with path.open("rb") as file:
                start = file.read(4)
            if start != b"GGUF":
                raise TargetUnavailable(f"{path} is no GGUF file: it begins with {start!r}; name another.")
            self._path = path
        return self._path

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, without the tokens for thoughts."""
        return room_left(self, self.whole_context)

    @property
    def identity(self) -> str:
        """The model, how it thinks, and the checksum of its weights. Raises TargetUnavailable."""
        return self._identity(identity_mark(self.thinking_tokens))

    @property
    def plain_identity(self) -> str:
        """The identity without the tokens for thoughts."""
        return self._identity("")

    def _identity(self, mark: str) -> str:
        sent = dict(self.options.sent)
        return f"{self.model}{f'#{digest(sent)[:12]}' if sent else ''}{mark}@sha256:{self._sha256()}"

    def _sha256(self) -> str:
        if not self.named:
            return SMOLLM2.sha256
        path = self.path().resolve()
        return noted_digest(path, cache_home() / "weights/notes" / f"{digest(str(path))[:32]}.json")

    async def open(self, progress: Watch | None = None) -> None:
        """Fetches the weights if they are missing, and loads the model."""
        if self._held is None:
            await _in_thread(lambda: self._load(progress))

    def _load(self, progress: Watch | None) -> None:
        with self._opening:
            library()  # before a useless download
            self._held = self._held or load(self.path(progress).resolve(), self.options, self._sha256())

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; a complete one fits its schema. Opens the target first if needed.

        Raises RequestRefused for a prompt beyond the context and a schema that cannot be enforced,
        TargetUnavailable after `timeout_s` seconds.
        """
        tokens, schema = request.sampling.max_tokens, request.schema
        body = {"top_k": 0, "min_p": 0.0, "cache_prompt": True, **request_body(request, self.model)}
        body |= {"chat_template_kwargs": dict(self.options.template_variables)}
        body.pop("response_format", None)  # which llama.cpp would not hold to
        if schema is not None:
            body["grammar"] = grammar(schema, tokens)
        await self.open()
        held, stop, take = self._held, threading.Event(), parts_taker.get()
        if held is None:
            raise TargetUnavailable(f"{self.name} was closed while a request was on its way; try again.")
        try:
            async with asyncio.timeout(self.options.timeout_s):
                answer = await _in_thread(lambda: held.ask(body, stop.is_set, take))
        except TimeoutError:
            raise TargetUnavailable(
                f"{self.name} did not finish a reply in {self.options.timeout_s:g} s; lower max_tokens or "
                "raise the option timeout_s."
            ) from None
        finally:
            stop.set()
        reply = read_reply(answer, request, self.count_tokens)
        if reply.finish == "length" and reply.usage.prompt + tokens > self.whole_context:
            raise _too_long(reply.usage.prompt, tokens, self.whole_context)
        if schema is not None and reply.finish == "stop":
            stopped = bool(request.sampling.stop) and not _is_json(reply.text)
            cut = stopped or is_cut(reply.text, schema, tokens)
            return replace(reply, finish="length") if cut else reply
        return reply

    def table_price(self) -> Price:
        """Returns a price of 0: the model runs in this process."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the exact count once open, else a quarter of the bytes."""
        held = self._held
        return math.ceil(len(text.encode("utf-8", "replace")) / 4) if held is None else held.count(text)

    async def aclose(self) -> None:
        """Frees the model unless another target of this process uses it; `open` loads it again."""
        self._held = None


class _Loaded:
    """A model that llama.cpp has loaded, and its server, whose key is known to this process only."""

    def __init__(self, path: Path, options: EmbeddedOptions, sha256: str) -> None:
        binding, key = library(), secrets.token_urlsafe(24)
        folder = cache_home() / "prefixes"
        if options.keep_prefixes:
            make_private(folder)
        else:
            folder = Path(mkdtemp(prefix="ragc-slots-"))
            finalize(self, shutil.rmtree, folder, ignore_errors=True)
        params = _parameters(path, options)
        params.api_keys, params.slot_save_path = [key], f"{folder}{os.sep}"
        try:
            self._server: Any = binding.Server(params)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise TargetUnavailable(
                f"llama.cpp could not load {path} ({path.stat().st_size >> 20} MiB) with {options.parallel} "
                f"slots of {options.context} tokens: the file may be cut short or unknown to it, or "
                "memory too small; lower context or parallel, or use another model."
            ) from error
        address = str(self._server.listening_address).removeprefix("http://")
        post = partial(_post, address, key)
        # a server that was never asked may never end
        self._server.handle_completions({"prompt": [1], "n_predict": 1}, lambda part: False)
        engine = [sha256, binding.__version__, str(binding.get_system_info()), params.cpuparams.n_threads]
        self._slots = Slots(options.parallel, folder, engine, partial(_act, post))
        self.count = lru_cache(maxsize=4096)(partial(_count, post))

    def ask(
        self, body: Mapping[str, Any], given_up: Callable[[], bool], take: Callable[[str], None] | None
    ) -> dict[str, Any]:
        """Returns the completion that `body` asks for; `take` gets the parts of its text as they come."""
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
                last = self._server.handle_chat_completions({**streamed, "id_slot": slot}, part)
            except (ValueError, TypeError) as error:
                raise RequestRefused(f"llama.cpp refused a request: {error}.", "failed") from error
        return _joined([*chunks, last] if isinstance(last, dict) else chunks, body["max_tokens"])

    def close(self) -> None:
        """Ends llama.cpp's threads, after the requests in progress."""
        self._server = None


def _act(post: Post, slot: int, action: str, name: str) -> bool:
    return bool(post(f"/slots/{slot}?action={action}", {"filename": name}).get(f"n_{action}d"))


def _count(post: Post, text: str) -> int:
    return len(post("/tokenize", {"content": text})["tokens"])


def _post(address: str, key: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with closing(connection):
        connection.request("POST", path, json.dumps(body), headers)
        return dict(json.load(connection.getresponse()))


_loaded: WeakValueDictionary[Any, _Loaded] = WeakValueDictionary()
_loading = threading.Lock()


def load(path: Path, options: EmbeddedOptions, sha256: str) -> _Loaded:
    """Returns the model at `path`, which all targets of that file and those sizes share. Blocks."""
    key = (path, options.context, options.parallel, options.threads, options.quiet, options.keep_prefixes)
    with _loading:
        model = _loaded[key] = _loaded.get(key) or _Loaded(path, options, sha256)
    return model


@atexit.register
def _close_all() -> None:
    for model in list(_loaded.values()):
        model.close()


def library() -> Any:
    """Returns the module of llama.cpp's binding. Raises TargetUnavailable where it is not installed.

    OpenMP's threads sleep while they wait for each other, where the user has not said otherwise: on a shared
    machine those that spin block each other. OpenMP reads this once, when it is loaded.
    """
    patient = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    added = {} if patient.keys() & os.environ.keys() else patient
    os.environ.update(added)
    try:
        import xllamacpp
    except ImportError:
        raise TargetUnavailable(
            "The embedded target needs xllamacpp, which is not installed: pip install 'ragc[embedded]'."
        ) from None
    finally:
        for name in added:
            os.environ.pop(name, None)
    return xllamacpp


def _parameters(path: Path, options: EmbeddedOptions) -> Any:
    binding = library()
    params = binding.CommonParams()
    params.model.path, params.ui, params.endpoint_slots = str(path), False, True
    params.n_parallel, params.n_ctx = options.parallel, options.context * options.parallel
    params.fit_params = False  # otherwise llama.cpp silently shrinks a context that does not fit
    params.ctx_shift = params.warmup = False
    params.cache_ram_mib = 0  # the default is 8 GiB of old prompts
    params.reasoning_format = binding.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    params.enable_reasoning = 0
    params.force_pure_content_parser = True  # a reply that looks like a tool call is still text
    params.verbosity = -1 if options.quiet else 3
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = options.threads or cores()
    return params


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


def _joined(chunks: list[Any], most: int) -> dict[str, Any]:
    """Returns the completion that came in `chunks`. Raises RequestRefused and TargetUnavailable."""
    body: dict[str, Any] = {}
    text: list[str] = []
    scored: list[Any] = []
    finish = ""
    for chunk in chunks:
        if error := chunk.get("error"):
            raise _failure(error if isinstance(error, dict) else {"message": error}, most)
        body["usage"] = chunk.get("usage") or body.get("usage")
        for choice in chunk.get("choices") or ():
            text.append(choice.get("delta", {}).get("content") or "")
            scored += (choice.get("logprobs") or {}).get("content") or ()
            finish = choice.get("finish_reason") or finish
    if not finish:
        raise TargetUnavailable("llama.cpp broke off a reply; try again.")
    message = {"role": "assistant", "content": "".join(text)}
    return body | {
        "choices": [{"message": message, "finish_reason": finish, "logprobs": {"content": scored}}]
    }


def _failure(error: Mapping[str, Any], most: int) -> Exception:
    said = f"llama.cpp could not answer: {str(error.get('message', error)).rstrip('.')}."
    if error.get("type") == "exceed_context_size_error":
        return _too_long(error.get("n_prompt_tokens", 0), most, error.get("n_ctx", 0))
    is_own = isinstance(code := error.get("code"), int) and code < 500
    return RequestRefused(said, "failed") if is_own else TargetUnavailable(said)


def _too_long(prompt: int, most: int, context: int) -> RequestRefused:
    return RequestRefused(
        f"The prompt has {prompt} tokens and the reply may have {most}, together more than the context of "
        f"{context}; shorten the prompt, lower max_tokens or raise the target's context.",
        "too long",
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


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

    context = copy_context()  # with who listens to notices
    threading.Thread(target=context.run, args=(run,), name="ragc-embedded", daemon=False).start()
    return await asyncio.wrap_future(future)
