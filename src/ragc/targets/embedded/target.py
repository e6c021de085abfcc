"""The embedded target: a GGUF model in this process, run by llama.cpp (`xllamacpp`).

Concurrent requests share the model by continuous batching. Each slot remembers its last prompt, so that
shared prefixes are computed once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ragc.core.digest import digest
from ragc.core.files import cache_home
from ragc.downloads.weights import noted_digest
from ragc.errors import TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch, parts_taker
from ragc.targets.embedded import server as llama
from ragc.targets.embedded.options import EmbeddedOptions
from ragc.targets.embedded.server import check_file, cores
from ragc.targets.embedded.weights import SMOLLM2, default_weights
from ragc.targets.embedded.wire import read_answer, request_body, too_long
from ragc.targets.prices import FREE, Price
from ragc.targets.reasoning import Reasons, mark_of, take_off

T = TypeVar("T")
_TRAINED_CONTEXT = 8192
_AROUND = 64  # maximum tokens that a chat template adds around messages


class EmbeddedTarget(Reasons):
    """Answers from the GGUF file at `path`, by default SmolLM2-135M-Instruct, which is downloaded once.

    `context` is the limit in tokens for prompt and reply together, for each of `parallel` concurrent
    requests. `threads` 0 means the physical cores this process may use. A reply that takes longer than
    `timeout_s` seconds is cancelled. `quiet` False lets llama.cpp write to stderr. `keep_prefixes` stores the
    states of long prompt prefixes (instructions and demonstrations) on disk for later processes. `price` is
    the price of its tokens, 0 by default, as in `ragc.targets.prices.Price`. `thinking_tokens`,
    `reasoning_effort` and `chat_template_kwargs` are as in `ragc.targets.options`. Targets of the same file
    and options share one model. If a request leaves top_k and min_p open they are off, as on a vLLM server.
    """

    template_tokens = 16
    """Tokens that the chat template puts around a message, at most: prompts leave room for them."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        context: int = 4096,
        parallel: int = 4,
        threads: int = 0,
        timeout_s: float = 600.0,
        quiet: bool = True,
        keep_prefixes: bool = True,
        price: Mapping[str, float] | None = None,
        thinking_tokens: int | str | None = None,
        reasoning_effort: str = "",
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        sizes = {"context": context, "parallel": parallel, "threads": threads}
        switches = {"timeout_s": timeout_s, "quiet": quiet, "keep_prefixes": keep_prefixes}
        thoughts = {
            "price": dict(price or {}),
            "thinking_tokens": thinking_tokens,
            "reasoning_effort": reasoning_effort,
            "chat_template_kwargs": dict(chat_template_kwargs or {}),
        }
        typed = {name: value for name, value in thoughts.items() if value not in (None, "", {})}
        self.options = EmbeddedOptions.of({**sizes, **switches, **typed})
        self.price = price or None
        if path is None and context > _TRAINED_CONTEXT:
            raise UsageError(
                f"{SMOLLM2.model} takes {_TRAINED_CONTEXT} tokens at most, got context {context}."
            )
        self.path = None if path is None else Path(path).expanduser()
        self.model = SMOLLM2.model if self.path is None else self.path.stem
        self.name = f"embedded {self.model}"
        self.capabilities: frozenset[Capability] = frozenset({"schema", "logprobs", "prefix_cache", "seed"})
        self.whole_context, self.concurrency = context, parallel
        self._threads, self._timeout_s, self._quiet = threads, float(timeout_s), bool(quiet)
        self._keep_prefixes = bool(keep_prefixes)
        self._sha256 = SMOLLM2.sha256 if self.path is None else ""
        self._held: tuple[llama.ModelSettings, llama.LoadedModel] | None = None
        self._opening = threading.Lock()
        self._counted = lru_cache(maxsize=4096)(self._count)

    def __copy__(self) -> EmbeddedTarget:
        return self

    def __deepcopy__(self, memo: object) -> EmbeddedTarget:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An embedded target holds a loaded model and cannot be pickled; build it where it is used."
        )

    def __repr__(self) -> str:
        return f"EmbeddedTarget({str(self.path or self.model)!r}, context={self.whole_context})"

    @property
    def identity(self) -> str:
        """The model, how it thinks, and the checksum of its weights (read again when they change).

        Raises TargetUnavailable.
        """
        return self._identity(mark_of(self.reasoning_tokens))

    @property
    def plain_identity(self) -> str:
        """The identity without the tokens for thoughts."""
        return self._identity("")

    def _identity(self, mark: str) -> str:
        if not self._sha256 and self.path is not None:
            check_file(self.path)
            note = cache_home() / "weights" / "notes" / f"{digest(str(self.path.resolve()))[:32]}.json"
            self._sha256 = noted_digest(self.path, note)
        sent = self.options.sent
        extra = f"#{digest(dict(sent))[:12]}" if sent else ""
        return f"{self.model}{extra}{mark}@sha256:{self._sha256}"

    async def open(self, progress: Watch | None = None) -> None:
        """Downloads the default weights if they are missing, and loads the model."""
        if self._held is None:
            await _in_thread(lambda: self._load(progress))

    def _load(self, progress: Watch | None) -> None:
        with self._opening:
            if self._held is None:
                llama.require()  # before a useless download of 93 MB
                path = default_weights(progress) if self.path is None else self.path
                _ = self.identity
                threads = self._threads or cores()
                settings = llama.ModelSettings(
                    path.resolve(),
                    self.whole_context,
                    self.concurrency,
                    threads,
                    self._quiet,
                    self._sha256 if self._keep_prefixes else "",
                )
                self._held = settings, llama.acquire(settings)

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; opens the target first if needed.

        Raises TargetError for a prompt and token limit that exceed the context together, and for a schema
        that cannot be enforced; TargetUnavailable after `timeout_s` seconds.
        """
        body = request_body(request, self.whole_context)
        if variables := self.options.template_variables:
            body["chat_template_kwargs"] = dict(variables)
        await self.open()
        held = self._held
        if held is None:
            raise TargetUnavailable(f"{self.name} was closed while a request was on its way; try again.")
        stop, take = threading.Event(), parts_taker.get()
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await _in_thread(lambda: _ask(held[1], body, self.whole_context, stop, take))
        except TimeoutError as error:
            raise TargetUnavailable(
                f"{self.name} did not finish a reply in {self._timeout_s:g} s; "
                "lower max_tokens or raise the option timeout_s."
            ) from error
        finally:
            stop.set()
        reply = read_answer(answer, request, self.whole_context)
        return take_off(reply, request, self.count_tokens)

    def table_price(self) -> Price:
        """Returns a price of 0: the model runs in this process."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the exact count once open; before, and above a megabyte, a quarter of the bytes."""
        return self._counted(text, self._held is not None)

    def _count(self, text: str, exact: bool) -> int:
        held = self._held
        data = text.encode("utf-8", "replace")
        counted = held[1].count(data.decode()) if exact and held and len(data) < 2**20 else None
        return math.ceil(len(data) / 4) if counted is None else counted

    async def aclose(self) -> None:
        """Frees the model unless another target of this process uses it; `open` loads it again."""
        held, self._held = self._held, None
        if held is not None:
            settings = held[0]
            del held
            await _in_thread(lambda: llama.release(settings))


def _ask(
    model: llama.LoadedModel,
    body: Mapping[str, Any],
    context: int,
    stop: threading.Event,
    take: Callable[[str], None] | None,
) -> llama.StreamedReply:
    """Returns the reply, whose parts go to `take` as they arrive.

    The prompt's tokens are counted first if it could be too long: a token is at least a byte.
    """
    most = body["max_tokens"]
    if sum(len(m["content"].encode()) + _AROUND for m in body["messages"]) + most + _AROUND > context:
        prompt = model.count_prompt(body["messages"])
        if prompt is not None and prompt + most > context:
            raise too_long(prompt, most, context)
    return model.ask(body, lambda: stop.is_set() or _is_exiting(), take)


def _is_exiting() -> bool:
    """Returns whether the interpreter is shutting down and waits for this thread."""
    return not threading.main_thread().is_alive()


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own; an executor would be joined before `_is_exiting` becomes true."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # passed on to the awaiting caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed and nothing awaits the result
            loop.call_soon_threadsafe(settle, result, error)

    # Not a daemon, unlike children of daemon threads: the interpreter must wait for it to leave llama.cpp.
    threading.Thread(target=run, name="ragc-embedded", daemon=False).start()
    return await future
