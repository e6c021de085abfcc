"""The embedded target: a GGUF model in this process, run and batched by llama.cpp's own server (`xllamacpp`).

The server is called in the process and not over its socket. Concurrent requests share the model by continuous
batching, and its `slots` share long beginnings of prompts.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.digest import digest
from ragc.core.files import cache_home
from ragc.downloads.hub import fetch_hub_file, is_hub_file
from ragc.downloads.weights import Watch, noted_digest
from ragc.errors import RequestRefused, TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, parts_taker
from ragc.targets.embedded.schema import grammar, is_cut
from ragc.targets.embedded.server import Loaded, library, load
from ragc.targets.embedded.weights import MODEL, SMOLLM2, default_weights
from ragc.targets.options import EmbeddedOptions
from ragc.targets.prices import FREE, Price
from ragc.targets.reasoning import Reasons, mark_of
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import Where, body_of, read_reply

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
        self.price = dict(self.options.price) or None
        if not self.named and self.whole_context > _TRAINED_CONTEXT:
            raise UsageError(
                f"{MODEL} takes {_TRAINED_CONTEXT} tokens at most, got context {self.whole_context}."
            )
        self._held: Loaded | None = None
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
    def identity(self) -> str:
        """The model, how it reasons, and the checksum of its weights. Raises TargetUnavailable."""
        return self._identity(mark_of(self.reasoning_tokens))

    @property
    def plain_identity(self) -> str:
        """The identity without the tokens for reasoning."""
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
        body = {"top_k": 0, "min_p": 0.0, "cache_prompt": True, **body_of(replace(request, schema=None), "")}
        body["chat_template_kwargs"] = dict(self.options.template_variables)
        if schema is not None:  # llama.cpp would not hold to a response_format
            body["grammar"] = grammar(schema, tokens)
        await self.open()
        held, stop, take = self._held, threading.Event(), parts_taker.get()
        if held is None:
            raise TargetUnavailable(f"{self.name} was closed while a request was on its way; try again.")

        async def attempt() -> Reply:
            answer = await _in_thread(lambda: held.ask(body, stop.is_set, take))
            return read_reply(answer, request, self.count_tokens, Where(self.name, self.model))

        try:
            reply = await with_tries(
                attempt, self.name, tries=1, total_s=self.options.timeout_s, error=_unfinished
            )
        finally:
            stop.set()
        prompt, context = reply.usage.prompt, self.whole_context
        if reply.finish == "length" and prompt + tokens > context:
            raise RequestRefused(
                f"The prompt has {prompt} tokens and the reply may have {tokens}, together more than the "
                f"context of {context}; shorten the prompt, lower max_tokens or raise the target's context.",
                "too long",
            )
        if schema is None or reply.finish != "stop":
            return reply
        cut = is_cut(reply.text, schema, tokens, stopped=bool(request.sampling.stop))
        return replace(reply, finish="length") if cut else reply

    def table_price(self) -> Price:
        """Returns a price of 0: the model runs in this process."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the exact count once open, else a quarter of the bytes."""
        held = self._held
        with suppress(OSError, ValueError, LookupError):  # such as half of a surrogate pair
            if held is not None:
                return held.count(text)
        return math.ceil(len(text.encode("utf-8", "replace")) / 4)

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
