"""llama.cpp in this process: each model is loaded once and called without blocking the loop.

Requests are streamed because the stream's callback is the only point where a request can be cancelled: when
its caller is cancelled, at a timeout, and at exit.

`check_file`, `available` and `cores` check the machine: readable weights, memory, processors.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.files import open_regular
from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.embedded.prefix_states import PrefixStates, state_key
from ragc.targets.embedded.slots import Slots
from ragc.targets.wire import tokens_in

_MAGIC, _LEAST = b"GGUF", 4096
_CPU_FILES = Path("/sys/devices/system/cpu")


def check_file(path: Path) -> None:
    """Raises TargetUnavailable unless `path` is a GGUF file that may fit into memory."""
    try:
        with open_regular(path) as file:
            head, size = file.read(8), os.fstat(file.fileno()).st_size
    except OSError as error:
        reason = error.strerror or str(error)
        raise TargetUnavailable(f"The weights {path} cannot be read: {reason}; name a GGUF file.") from error
    if head[:4] != _MAGIC:
        raise TargetUnavailable(f"{path} is no GGUF file: it begins with {head[:4]!r} instead of {_MAGIC!r}.")
    if size < _LEAST:
        raise TargetUnavailable(f"{path} is cut short: a GGUF file of {size} bytes holds no model.")
    if size > available():
        raise TargetUnavailable(
            f"{path} needs {size >> 20} MiB of memory and {available() >> 20} MiB are free; "
            "use a smaller model."
        )


def cores() -> int:
    """Returns the physical cores this process may use, from its affinity and quota, without SMT siblings."""
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    physical_cores = {_read(_CPU_FILES / f"cpu{n}/topology/thread_siblings_list") or str(n) for n in mine}
    quota, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    allowed = (
        math.ceil(int(quota) / int(period)) if quota.isdigit() and period.isdigit() else len(physical_cores)
    )
    return max(1, min(len(physical_cores), allowed))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def available() -> int:
    """Returns bytes of memory available without swapping; a very large number if not reported."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**60


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings that identify a loaded model; `context` is per slot.

    `weights_digest` is the SHA-256 of the weights, under which prefix states are stored on disk; "" stores
    none.
    """

    path: Path
    context: int
    parallel: int
    threads: int
    quiet: bool
    weights_digest: str = ""


@dataclass(slots=True)
class StreamedReply:
    """A streamed reply, assembled from its parts."""

    text: list[str] = field(default_factory=list)
    logprobs: list[tuple[str, float]] = field(default_factory=list)
    finish: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)

    def take(self, part: Mapping[str, Any]) -> None:
        """Adds one part, or record the error that it contains."""
        if error := part.get("error"):
            self.error = error if isinstance(error, dict) else {"message": str(error)}
        self.usage = part.get("usage") or self.usage
        for choice in part.get("choices") or ():
            self.text.append((choice.get("delta") or {}).get("content") or "")
            self.finish = choice.get("finish_reason") or self.finish
            drawn = (choice.get("logprobs") or {}).get("content") or ()
            self.logprobs.extend((t["token"], t["logprob"]) for t in drawn)

    def count_computed(self, tokens: int) -> None:
        """Counts `tokens` of the prompt, computed in advance for this request, as not cached."""
        details = self.usage.get("prompt_tokens_details")
        if tokens and isinstance(details, dict) and (cached := tokens_in(details.get("cached_tokens"))):
            counted = {**details, "cached_tokens": max(0, cached - tokens)}
            self.usage = {**self.usage, "prompt_tokens_details": counted}


class LoadedModel:
    """A loaded model. llama.cpp always opens an HTTP listener; its key is known to this process only."""

    def __init__(self, settings: ModelSettings) -> None:
        self.users = 0
        self._was_asked = False
        self._key = secrets.token_urlsafe(24)
        binding = _binding()
        self._about = settings.weights_digest, _engine(binding, settings)
        params = _params(binding, settings, self._key)
        self._slots = Slots(settings.parallel, self, PrefixStates() if settings.weights_digest else None)
        params.slot_save_path = f"{self._slots.folder}{os.sep}"
        try:
            self._server: Any = binding.Server(params)
        except (RuntimeError, ValueError, MemoryError) as error:
            self._slots.close()
            size = settings.path.stat().st_size >> 20
            raise TargetUnavailable(
                f"llama.cpp could not load {settings.path} ({size} MiB) with {settings.parallel} slots of "
                f"{settings.context} tokens: the file may be cut short or of a kind unknown to it, or memory "
                f"too small ({available() >> 20} MiB are free)."
            ) from error
        self._address = str(self._server.listening_address).removeprefix("http://")

    def ask(
        self, body: Mapping[str, Any], given_up: Callable[[], bool], take: Callable[[str], None] | None = None
    ) -> StreamedReply:
        """Returns the whole reply, or its beginning once `given_up`, called at every token, is True.

        `take` is called with each part of its text.
        """
        answer = StreamedReply()

        def part(value: Any) -> bool:
            known = len(answer.text)
            answer.take(value)
            if take is not None:
                take("".join(answer.text[known:]))
            return given_up()

        server = self._server
        if server is None:
            raise TargetUnavailable("The model is closed: the program is ending.")
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._slots.acquire(body["messages"], given_up) as lease:
            if lease is None:
                return answer
            try:
                returned = server.handle_chat_completions({**streamed, "id_slot": lease.slot}, part)
            except (ValueError, TypeError) as error:
                raise TargetError(f"llama.cpp refused a request: {error}.") from error
        self._was_asked = True
        answer.take(returned if isinstance(returned, dict) else {})
        answer.count_computed(lease.computed)
        return answer

    def close(self) -> None:
        """Releases the model; its memory is freed after the requests in progress.

        llama.cpp may wait for ever for its loop where that is ended before it began, so a model that was
        never asked computes one token first.
        """
        if not self._was_asked:
            self.compute(0, [1])
        self._server = None
        self._slots.close()

    def prefix(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, list[int]]:
        """Returns the key and the tokens of the chat template's text before the last message's content."""
        blank = secrets.token_hex(16)
        prompt = self._post(
            "/apply-template", {"messages": [*messages[:-1], {**messages[-1], "content": blank}]}
        )
        tokens = self._tokens(str(prompt.get("prompt", "")).partition(blank)[0], special=True) or []
        return state_key(*self._about, tokens), tokens

    def compute(self, slot: int, tokens: Sequence[int]) -> int | None:
        """Computes the state after `tokens` in `slot`; returns their number, or None if that failed."""
        body = {
            "prompt": list(tokens),
            "n_predict": 0,
            "id_slot": slot,
            "cache_prompt": True,
            "stream": False,
        }
        timings: dict[str, Any] = {}

        def read(part: Mapping[str, Any]) -> bool:
            timings.update(part.get("timings") or {})
            return False

        try:
            self._server.handle_completions(body, read)
        except (ValueError, TypeError, AttributeError):  # AttributeError: closed meanwhile
            return None
        return tokens_in(timings.get("prompt_n"))

    def save(self, slot: int, name: str) -> bool:
        """Writes the state of `slot` to the file `name`; returns whether it succeeded."""
        return "n_saved" in self._post(f"/slots/{slot}?action=save", {"filename": name})

    def restore(self, slot: int, name: str) -> int | None:
        """Reads the state of `slot` from the file `name`; returns its tokens, or None if that failed."""
        return tokens_in(self._post(f"/slots/{slot}?action=restore", {"filename": name}).get("n_restored"))

    def count(self, text: str) -> int | None:
        """Returns the number of tokens in `text`, or None when the listener does not answer."""
        tokens = self._tokens(text)
        return None if tokens is None else len(tokens)

    def count_prompt(self, messages: object) -> int | None:
        """Returns the number of tokens in chat `messages` with the chat template applied, or None."""
        prompt = self._post("/apply-template", {"messages": messages}).get("prompt")
        tokens = None if prompt is None else self._tokens(prompt, special=True)
        return None if tokens is None else len(tokens)

    def _tokens(self, text: str, *, special: bool = False) -> list[int] | None:
        """Returns the tokens of `text`, with `special` those of a whole prompt; None without an answer."""
        body = {"content": text, "add_special": special, "parse_special": special}
        return self._post("/tokenize", body).get("tokens")

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            return dict(json.loads(connection.getresponse().read()))
        except (OSError, http.client.HTTPException, ValueError, TypeError, RecursionError):
            return {}
        finally:
            connection.close()


_models: dict[ModelSettings, LoadedModel] = {}
_lock = threading.Lock()


def acquire(settings: ModelSettings) -> LoadedModel:
    """Returns the model of `settings`, loaded unless another target of this process has it. Blocks."""
    with _lock:
        if settings not in _models:
            check_file(settings.path)
            _models[settings] = LoadedModel(settings)
        model = _models[settings]
        model.users += 1
        return model


def release(settings: ModelSettings) -> None:
    """Releases one `acquire`; the last one frees the memory after the replies in progress."""
    with _lock:
        model = _models.get(settings)
        if model is not None:
            model.users -= 1
            if model.users <= 0:
                del _models[settings]
                model.close()


@atexit.register
def _close_all() -> None:
    """Stops llama.cpp's threads before the process exits."""
    for model in _models.values():
        model.close()


def require() -> None:
    """Raises TargetUnavailable unless llama.cpp's binding is installed with the required features."""
    _binding()


def _binding() -> Any:
    try:
        with _patient_threads():
            import xllamacpp
    except ImportError as error:
        raise TargetUnavailable(
            "The embedded target needs xllamacpp, which is not installed: pip install 'ragc[embedded]'."
        ) from error
    if not xllamacpp.json_schema_to_grammar({"type": "null"}).startswith("%llguidance"):
        raise TargetUnavailable("This build of xllamacpp is without LLGuidance; install one that has it.")
    return xllamacpp


@contextlib.contextmanager
def _patient_threads() -> Iterator[None]:
    """Lets OpenMP's threads sleep instead of spin while they wait for each other, until exit.

    On a shared machine, spinning threads block each other. OpenMP reads this setting once, when it is loaded;
    a value set by the user is respected.
    """
    names = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    mine = {} if names.keys() & os.environ.keys() else names
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            os.environ.pop(name, None)


def _engine(binding: Any, settings: ModelSettings) -> list[Any]:
    """Returns what besides weights and tokens changes a state: engine, processor features in use, threads."""
    build = {name: str(value) for name, value in dict(binding.BUILD_INFO).items()}
    return [binding.__version__, build, str(binding.get_system_info()), settings.threads]


def _params(binding: Any, settings: ModelSettings, key: str) -> Any:
    params = binding.CommonParams()
    params.model.path = str(settings.path)
    params.n_ctx = settings.context * settings.parallel
    params.n_parallel = settings.parallel
    params.fit_params = False  # otherwise llama.cpp silently shrinks a context that does not fit
    params.ctx_shift = False
    params.cache_ram_mib = 0  # the default is 8 GiB of old prompts
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = True  # needed to save and restore the state of slots
    params.reasoning_format = binding.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    params.enable_reasoning = 0
    params.force_pure_content_parser = True  # a reply that looks like a tool call is still text
    params.warmup = False
    params.verbosity = -1 if settings.quiet else 3
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = settings.threads
    return params
