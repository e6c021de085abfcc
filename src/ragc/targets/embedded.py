"""The embedded target: llama.cpp inside this process, no server and no key.

A model is loaded once a process for each file and setting. Requests in flight share its slots by
continuous batching, and each slot keeps the prompt prefix it last saw. Replies are decoded under
their JSON schema by LLGuidance, without optional white space, so a complete reply always parses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.base import Capability, ChatRequest, Reply, Target, TokenLogprob, Usage, Watch
from ragc.targets.weights import SMOLLM2, default_weights, file_sha256

_MAGIC = b"GGUF"
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_CHARACTERS_A_TOKEN = 3.2


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Setting:
    """What makes one loaded model differ from another."""

    path: Path
    context: int
    parallel: int
    threads: int


@dataclass(slots=True)
class _Loaded:
    server: Any
    pool: ThreadPoolExecutor


_loaded: dict[_Setting, _Loaded] = {}
_loading = threading.Lock()


class EmbeddedTarget(Target):
    """A GGUF model on the processors of this machine.

    `path` is a GGUF file; None is SmolLM2-135M-Instruct, downloaded once. `context` is the most
    tokens of prompt and reply together, `parallel` how many requests are answered at once, and
    `threads` the processors used (default: all).
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        context: int = 4096,
        parallel: int = 2,
        threads: int | None = None,
    ) -> None:
        self._path = Path(path).expanduser() if path else None
        self._context, self._parallel, self._threads = context, parallel, threads or cores()
        self._model: _Loaded | None = None
        self.model = self._path.name if self._path else SMOLLM2.filename
        self.name = f"embedded {Path(self.model).stem}"
        self.capabilities: frozenset[Capability] = frozenset({"schema", "logprobs", "prefix_cache", "seed"})
        self.context_tokens, self.concurrency = context, parallel
        self.identity = f"{self.model}@{_sum_of(self._path)}"

    def __copy__(self) -> EmbeddedTarget:
        return self

    def __deepcopy__(self, memo: object) -> EmbeddedTarget:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an embedded model cannot be pickled; build the target again where it is needed")

    async def open(self, progress: Watch | None = None) -> None:
        """Load the weights, downloading them first when they are the default ones."""
        if self._model is None:
            self._model = await asyncio.to_thread(self._load, progress)

    def _load(self, progress: Watch | None) -> _Loaded:
        path = self._path or default_weights(progress)
        _check(path)
        setting = _Setting(path.resolve(), self._context, self._parallel, self._threads)
        with _loading:
            if setting not in _loaded:
                _loaded[setting] = _start(setting)
            return _loaded[setting]

    async def complete(self, request: ChatRequest) -> Reply:
        """One reply. Raises TargetError for a request that does not fit the context or cannot be decoded."""
        await self.open()
        model, body = self._loaded(), self.body(request)
        answer = await asyncio.get_running_loop().run_in_executor(
            model.pool, model.server.handle_chat_completions, body
        )
        return self._read(answer)

    def _loaded(self) -> _Loaded:
        if self._model is None:
            raise TargetUnavailable(f"{self.name} was closed while a request was on its way; open it again.")
        return self._model

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The request as llama.cpp's server takes it."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "cache_prompt": True,
        }
        if sampling.top_k is not None:
            body["top_k"] = sampling.top_k
        if sampling.min_p is not None:
            body["min_p"] = sampling.min_p
        if sampling.temperature > 0:
            body["seed"] = ((sampling.seed or 0) + request.sample) % 2**31
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if request.logprobs:
            body |= {"logprobs": True, "top_logprobs": 1}
        if request.schema is not None:
            compact = {**request.schema, "x-guidance": _COMPACT}
            body["grammar"] = f"%llguidance {{}}\nstart: %json {json.dumps(compact)}"
        return body

    def _read(self, answer: dict[str, Any]) -> Reply:
        if "error" in answer:
            said = (
                answer["error"].get("message", "")
                if isinstance(answer["error"], dict)
                else str(answer["error"])
            )
            if "context" in said:
                raise TargetError(
                    f"{self.name} takes {self._context} tokens of prompt and reply together, a request is "
                    f"longer ({said}); shorten the passages or raise the target's context."
                )
            raise TargetError(f"{self.name} refused a request: {said}")
        choice, usage = answer["choices"][0], answer["usage"]
        finish: Literal["stop", "length"] = "length" if choice["finish_reason"] == "length" else "stop"
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        drawn = (choice.get("logprobs") or {}).get("content") or []
        return Reply(
            choice["message"]["content"] or "",
            finish,
            Usage(usage["prompt_tokens"], usage["completion_tokens"], cached),
            logprobs=tuple(TokenLogprob(t["token"], float(t["logprob"])) for t in drawn),
        )

    def count_tokens(self, text: str) -> int:
        """An estimate from the number of characters, a little high for English prose."""
        return int(len(text) / _CHARACTERS_A_TOKEN) + 1

    async def aclose(self) -> None:
        """The model stays loaded for other targets of this process; it is freed at exit."""
        self._model = None


def _sum_of(path: Path | None) -> str:
    if path is None:
        return SMOLLM2.sha256
    _check(path)
    return file_sha256(path)


def _check(path: Path) -> None:
    """Raise TargetUnavailable unless `path` looks like a GGUF file; llama.cpp would end the process."""
    if not path.is_file():
        raise TargetUnavailable(f"No weights are at {path}; check the target's model, a path to a GGUF file.")
    with path.open("rb") as file:
        head = file.read(4)
    if head != _MAGIC or path.stat().st_size < 4096:
        raise TargetUnavailable(f"{path} is not a GGUF file (it begins with {head!r}); name another one.")


def _start(setting: _Setting) -> _Loaded:
    try:
        import xllamacpp
    except ImportError as error:
        raise TargetUnavailable(
            "The embedded target needs xllamacpp, which is not installed; run: pip install 'ragc[embedded]'."
        ) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(setting.path)
    params.n_ctx = setting.context * setting.parallel
    params.n_parallel = setting.parallel
    params.n_batch = params.n_ubatch = 512
    params.ctx_shift = False
    params.verbosity = -1
    params.cache_ram_mib = 0
    params.warmup = False
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = setting.threads
    try:
        server = _quietly(lambda: xllamacpp.Server(params))
    except Exception as error:
        raise TargetUnavailable(
            f"llama.cpp could not load {setting.path} ({error}); the file may be damaged or too large for "
            "the memory."
        ) from error
    return _Loaded(server, ThreadPoolExecutor(setting.parallel, thread_name_prefix="llama"))


def _quietly(make: Callable[[], Any]) -> Any:
    """Run `make` with the process's stderr turned away: llama.cpp writes there while it loads."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        with contextlib.suppress(OSError):
            os.dup2(nowhere, 2)
        return make()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
