"""The embedded target: a GGUF model in this process, run and batched by llama.cpp's own server (`xllamacpp`).

The server is called in the process and not over its socket. Concurrent requests share the model by continuous
batching, and its `slots` share long beginnings of prompts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.digest import digest
from ragc.downloads.hub import fetch_hub_file, is_hub_file
from ragc.downloads.weights import Watch, noted_digest
from ragc.errors import RequestRefused, TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, parts_taker
from ragc.targets.embedded.schema import grammar, is_cut
from ragc.targets.embedded.server import Loaded, library, load
from ragc.targets.embedded.weights import MODEL, SMOLLM2, default_weights
from ragc.targets.options import EmbeddedOptions
from ragc.targets.prices import FREE, Price
from ragc.targets.reasoning import Reasons
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import Where, body_of, bound_tokens, read_reply

T = TypeVar("T")
_CAPABILITIES: frozenset[Capability] = frozenset({"schema", "logprobs", "prefix_cache", "seed"})
_TRAINED_CONTEXT = 8192


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
        self._held: Loaded | None = None

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

    async def _load(self, progress: Watch | None = None) -> Loaded:
        """Returns the loaded model."""

        def work() -> Loaded:
            library()  # before a useless download
            return load(self._path(progress), self.options, self._sha256)

        if self._held is None:
            self._held = await _in_thread(work)
        return self._held

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; a complete one fits its schema. Opens the target first if needed.

        Raises RequestRefused for a prompt beyond the context and a reply that left its schema,
        TargetUnavailable after `timeout_s` seconds.
        """
        tokens, schema = request.sampling.max_tokens, request.schema
        body = {"top_k": 0, "min_p": 0.0, "cache_prompt": True, **body_of(replace(request, schema=None), "")}
        body["chat_template_kwargs"] = dict(self.options.template_variables)
        if schema is not None:  # llama.cpp would not hold to a response_format
            body["grammar"] = grammar(schema, tokens)
        loaded, stop, take = await self._load(), threading.Event(), parts_taker.get()

        async def attempt() -> Reply:
            answer = await _in_thread(lambda: loaded.ask(body, stop.is_set, take))
            return read_reply(answer, request, self.count_tokens, Where(self.name, self.model))

        try:
            reply = await with_tries(
                attempt, self.name, tries=1, total_s=self.options.timeout_s, error=_unfinished
            )
        finally:
            stop.set()
        prompt = reply.usage.prompt
        if reply.finish == "length" and prompt + tokens > self.whole_context:
            raise RequestRefused(
                f"The prompt has {prompt} tokens and the reply may have {tokens}, more than the context of "
                f"{self.whole_context}; shorten the prompt, lower max_tokens or raise the target's context.",
                "too long",
            )
        if schema is not None and reply.finish == "stop" and is_cut(reply.text, schema, tokens):
            reply = replace(reply, finish="length")
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


def _unfinished(name: str, failure: Again, tries: int) -> TargetUnavailable:
    return TargetUnavailable(f"{name} {failure}; lower max_tokens or raise the option timeout_s.")


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
