"""vLLM's own engine in this process, without a server: `offline = true`.

The engine batches concurrent requests itself. Prompts use the model's own chat template, as on the server.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, TokenLogprob, Usage, Watch
from ragc.targets.openai_wire import sample_seed
from ragc.targets.sample_batching import SampleBatcher
from ragc.targets.thinking import ThinkingRoom, room_left
from ragc.targets.thoughts import take_off
from ragc.targets.token_price import FREE, Price
from ragc.targets.vllm.managed import identity
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.target import UNKNOWN_CONTEXT, check_reply_fits

_ALL: tuple[Capability, ...] = ("schema", "logprobs", "prompt_logprobs", "n", "seed", "prefix_cache")


class OfflineTarget(ThinkingRoom):
    """Answers with vLLM's engine and `model`, an id or a folder, which `open` loads; needs `ragc[vllm]`.

    `dtype`, `context_tokens` and `flags` are those of a server. All calls must come from one event loop.
    """

    def __init__(self, model: str, options: VllmOptions) -> None:
        if not model:
            raise UsageError(
                "A vllm target with offline = true needs a model: an id or the path of a folder."
            )
        self.model, self.options = model, options
        self.name = f"vllm {Path(model).name}"
        self.capabilities = options.correct(_ALL)
        self.whole_context = options.context_tokens
        self.concurrency = options.concurrency
        self._plain_identity = ""
        self._engine: Any = None
        self._tokenizer: Any = None
        self._opening: asyncio.Task[None] | None = None
        self._draws, self._numbers = SampleBatcher(self.samples), itertools.count()

    def __deepcopy__(self, memo: object) -> OfflineTarget:
        return self

    def __repr__(self) -> str:
        return f"OfflineTarget({self.model!r})"

    @property
    def plain_identity(self) -> str:
        """The identity without the tokens for thoughts."""
        if not self._plain_identity:
            self._plain_identity = identity(self.model, self.options)
        return self._plain_identity

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, without those for thoughts; a guess until the model is loaded."""
        return room_left(self, UNKNOWN_CONTEXT)

    async def open(self, progress: Watch | None = None) -> None:
        """Loads the model. Raises TargetUnavailable without vLLM, TargetError when vLLM refuses."""
        if self._engine is None:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.ensure_future(self._load())
            await self._opening

    async def _load(self) -> None:
        self._engine = await asyncio.to_thread(engine, self.model, self.options)
        self._tokenizer = self._engine.get_tokenizer()
        self.whole_context = int(self._engine.model_config.max_model_len)

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`. Concurrent samples of one request read the prompt once."""
        await self.open()
        if "n" in self.capabilities and request.sampling.temperature > 0:
            return await self._draws.reply(request)
        return (await self.samples(request, 1))[0]

    async def samples(self, request: ChatRequest, n: int) -> tuple[Reply, ...]:
        """Returns `n` samples of `request`, with its own index and the following ones."""
        check_reply_fits(request, self.whole_context, self.name)
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        ids = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False, **self.options.template_variables
        )
        prompt_limit = self.whole_context - request.sampling.max_tokens
        if len(ids) > prompt_limit:
            raise TargetError(
                f"A prompt of {len(ids)} tokens with a reply of up to {request.sampling.max_tokens} does not "
                f"fit the context window of {self.name}, which holds {self.whole_context} tokens.",
                refused=True,
            )
        last = None
        number = f"ragc-{next(self._numbers)}"
        try:
            async for output in self._engine.generate(
                {"prompt_token_ids": ids}, sampling(request, n), number
            ):
                last = output
        except (ValueError, RuntimeError) as error:
            raise TargetError(f"{self.name} refused a request: {error}.") from error
        if last is None:
            raise TargetUnavailable(f"{self.name} ended without a reply; its engine was closed.")
        return tuple(self._reply(last, one, request) for one in sorted(last.outputs, key=lambda o: o.index))

    def _reply(self, output: Any, one: Any, request: ChatRequest) -> Reply:
        prompt = output.prompt_token_ids or ()
        scored = zip(prompt[1:], (output.prompt_logprobs or ())[1:], strict=False)
        reply = Reply(
            text=one.text,
            finish="length" if one.finish_reason == "length" else "stop",
            usage=Usage(len(prompt), len(one.token_ids), int(output.num_cached_tokens or 0)),
            logprobs=_token_logprobs(zip(one.token_ids, one.logprobs or (), strict=False))
            if request.logprobs
            else (),
            prompt_logprobs=_token_logprobs(scored) if request.prompt_logprobs else (),
        )
        return take_off(reply, request, self.count_tokens)

    def table_price(self) -> Price:
        """Returns a price of 0: the model runs on the user's own machine."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns the exact count once open; before, a quarter of the characters, rounded up."""
        if self._tokenizer is None:
            return (len(text) + 3) // 4
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    async def aclose(self) -> None:
        """Frees the model; `open` loads it again."""
        held, self._engine, self._tokenizer = self._engine, None, None
        if held is not None:
            await asyncio.to_thread(held.shutdown)


def engine(model: str, options: VllmOptions) -> Any:
    """Returns the engine of vLLM with `model` loaded. Blocks.

    Raises TargetUnavailable without vLLM, and TargetError when vLLM refuses.
    """
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise TargetUnavailable(
            f"offline = true needs vLLM in this Python ({error}): pip install 'ragc[vllm]', or use "
            "serve = true with the option python."
        ) from error
    arguments: dict[str, Any] = {name.replace("-", "_"): value for name, value in options.flags.items()}
    arguments |= {"dtype": options.dtype} if options.dtype else {}
    arguments |= {"max_model_len": options.context_tokens} if options.context_tokens else {}
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(model=model, **arguments))
    except Exception as error:  # vLLM raises any exception; its own words say what it refused
        message = " ".join(str(error).split())[:300]
        raise TargetError(f"vLLM could not load {model}: {message or type(error).__name__}.") from error


def sampling(request: ChatRequest, n: int) -> Any:
    """Returns the sampling parameters of vLLM for `n` samples of `request`, as its server derives them."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    settings = request.sampling
    parameters: dict[str, Any] = {
        "n": n,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "top_k": settings.top_k or 0,
        "min_p": settings.min_p or 0.0,
        "stop": list(settings.stop),
        "seed": sample_seed(request) if settings.temperature > 0 else None,
        "logprobs": 1 if request.logprobs else None,
        "prompt_logprobs": 0 if request.prompt_logprobs else None,
        "output_kind": RequestOutputKind.FINAL_ONLY,
    }
    if request.schema is not None:
        parameters["structured_outputs"] = StructuredOutputsParams(json=dict(request.schema))
    return SamplingParams(**parameters)


def _token_logprobs(pairs: Any) -> tuple[TokenLogprob, ...]:
    """Returns the log-probability of each token among the candidates that vLLM lists for its position."""
    return tuple(_own(token, held) for token, held in pairs if held is not None)


def _own(token: int, held: Mapping[int, Any]) -> TokenLogprob:
    return TokenLogprob(str(held[token].decoded_token or ""), float(held[token].logprob))
