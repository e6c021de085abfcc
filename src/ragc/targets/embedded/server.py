"""llama.cpp's own server in this process (`xllamacpp`): loaded once per file, called in threads.

Requests are streamed, because the stream's callback is the only place where one can be given up: when its
caller is cancelled, at a timeout and at exit.
"""

from __future__ import annotations

import atexit
import math
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import httpx

from ragc.core.files import cache_home, make_private
from ragc.core.text import repair_surrogates
from ragc.errors import RequestRefused, TargetUnavailable
from ragc.targets.embedded.slots import Slots
from ragc.targets.options import EmbeddedOptions
from ragc.targets.wire import bound_tokens, joined

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


class Loaded:
    """A model that llama.cpp has loaded, and its server, whose key is known to this process only."""

    def __init__(self, path: Path, options: EmbeddedOptions, sha256: str) -> None:
        binding, key = library(), secrets.token_urlsafe(24)
        folder = make_private(cache_home() / "prefixes")
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
        client = httpx.Client(
            base_url=str(self._server.listening_address),
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )
        # a server that was never asked may never end
        self._server.handle_completions({"prompt": [1], "n_predict": 1}, lambda part: False)
        engine = [sha256, binding.__version__, str(binding.get_system_info()), params.cpuparams.n_threads]
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
                last = self._server.handle_chat_completions({**streamed, "id_slot": slot}, part)
            except (ValueError, TypeError) as error:
                raise RequestRefused(f"llama.cpp refused a request: {error}.", "failed") from error
        return joined([*chunks, last] if isinstance(last, dict) else chunks)

    def close(self) -> None:
        """Ends llama.cpp's threads, after the requests in progress."""
        self._server = None


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


_loaded: WeakValueDictionary[Any, Loaded] = WeakValueDictionary()
_loading = threading.Lock()


def load(path: Path, options: EmbeddedOptions, sha256: str) -> Loaded:
    """Returns the model at `path`, which all targets of that file and those sizes share. Blocks."""
    key = (path, options.context, options.parallel, options.threads, options.quiet)
    with _loading:
        model = _loaded[key] = _loaded.get(key) or Loaded(path, options, sha256)
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


def _parameters(path: Path, options: EmbeddedOptions) -> Any:
    binding = library()
    params = binding.CommonParams()
    for name, value in _SETTINGS.items():
        setattr(params, name, value)
    params.model.path, params.verbosity = str(path), -1 if options.quiet else 3
    params.n_parallel, params.n_ctx = options.parallel, options.context * options.parallel
    params.reasoning_format = binding.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
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
