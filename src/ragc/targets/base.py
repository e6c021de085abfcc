"""The interface of a language model: requests in, replies out.

A target answers one request at a time. Storing, counting and budgets are added by `ragc.targets.gateway`, for
every kind of target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, get_args

from annotated_types import Ge, Le

if TYPE_CHECKING:
    from ragc.core.marks import Mark
    from ragc.targets.options import TargetOptions, TargetSpec

Role = Literal["main", "proxy", "judge", "teacher"]
ROLES: tuple[Role, ...] = get_args(Role)

Capability = Literal["schema", "logprobs", "prompt_logprobs", "prefix_cache", "seed", "reasoning"]
"""What a target can do.

    schema            force replies to fit a JSON schema
    logprobs          log-probabilities of the generated tokens
    prompt_logprobs   log-probabilities of the prompt's tokens
    prefix_cache      equal prompt prefixes cost less
    seed              the seed is respected
    reasoning         the model reasons before it answers
"""

Watch = Callable[[int, int], None]
"""Callback for a download: bytes done, and bytes in total."""

Count = Callable[[str], int]
"""Returns the tokens of a text, or an upper bound."""

parts_taker: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_parts_taker", default=None)
"""Takes the parts of a reply as they come, where somebody follows it; called in any thread, once a part.

A target that gets a reply in parts calls it with each part of the text. Others leave it alone.
"""


class Message(NamedTuple):
    """One chat message; `content` is plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


class TokenLogprob(NamedTuple):
    """A token and its natural-log probability."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters. `None` leaves a value to the target.

    temperature >= 0 (0 is greedy), 0 < top_p <= 1, max_tokens >= 1 counts reply tokens.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 256
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request for one reply.

    `schema` is the JSON schema that the reply must fit, or None for free text. `logprobs` requests the
    log-probability of each generated token, `prompt_logprobs` that of each prompt token as the model sees it
    (capability `prompt_logprobs`). `sample` numbers repeated samples of the same request. It is part of the
    store's key and is not sent, except that a target with capability `seed` adds it to `sampling.seed` when
    temperature > 0.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    sampling: Sampling = Sampling()
    logprobs: bool = False
    sample: int = 0
    prompt_logprobs: bool = False


MOST_TOKENS = 2**31 - 1
"""The largest plausible number of tokens."""

MIN_LOGPROB = -9999.0
"""Stands for the log of probability 0, as in vLLM's server."""

Tokens = Annotated[int, Ge(0), Le(MOST_TOKENS)]
Amount = Annotated[float, Ge(0), Le(1e12)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply; `cached` are of the prompt, `reasoning` are of the completion."""

    prompt: Tokens = 0
    completion: Tokens = 0
    cached: Tokens = 0
    reasoning: Tokens = 0

    def __add__(self, other: Usage) -> Usage:
        """Returns the tokens of two replies together."""
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


Finish = Literal["stop", "length", "refusal", "tool_calls"]
"""Why a reply ends. A reply that a content filter stopped is no reply but a `RequestRefused`.

    stop         it is complete
    length       the token limit cut it short
    refusal      the model refuses; `text` is what it says
    tool_calls   the model calls tools in place of an answer; `text` spells the calls
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. `text` is without the model's reasoning; `reasoning` holds its beginning and end.

    `usd` is what the target itself reports, 0 for local ones. `logprobs` and `prompt_logprobs` are empty
    unless requested; `prompt_logprobs` begins with the prompt's second token, as the first has no
    predecessor. `seconds` are from sending the request to its reply; 0 if unknown.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage()
    usd: Amount = 0.0
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""
    seconds: Amount = field(default=0.0, compare=False)


class Target(Protocol):
    """An endpoint that answers chat requests.

    `name` is for users (`embedded SmolLM2-135M-Instruct`). `identity` is part of the call store's key: it
    identifies the model (its id and a fingerprint of the weights, or the base URL), and what is sent with
    every request. `concurrency` is the number of requests answered at once without queueing. `__deepcopy__`
    returns the target itself.
    """

    name: str
    model: str
    concurrency: int

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this target."""
        ...

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, for prompt and answer together."""
        ...

    @property
    def identity(self) -> str:
        """Identifies the model in the store's key.

        Raises TargetUnavailable when its weights cannot be read.
        """
        ...

    async def open(self, progress: Watch | None = None) -> None:
        """Prepares the target (load weights, check the server). Idempotent.

        `progress` receives the bytes of a download, done and in total. Raises TargetUnavailable, in one
        sentence, when the target cannot be prepared.
        """

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`.

        Raises RequestRefused where this request is refused and others may be answered, TargetUnavailable
        after the last try, TargetStopped where no request is answered until something is set right.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Returns the number of tokens in `text`, or an upper bound; the same for the same text."""
        ...

    async def aclose(self) -> None:
        """Releases what `open` acquired. Idempotent."""


@dataclass(frozen=True, slots=True)
class TargetKind:
    """The record of a kind of target, which validation, building, trust and requirements read.

    `options` checks the table `options` and marks what each option does. `build` makes the target of a spec,
    loading and sending nothing. `model_does` says what the model of a spec has ragc do, where that is more
    than to ask its `base_url` or to read its file. `lacking` gives a sentence for each thing that this
    machine lacks for a spec, which it calls by its first argument, beside `modules`, which must be installed.
    `model_file` is set where `model` is a file of weights. `default_weights` says which weights of ragc's are
    used where no model is named, "" for none.
    """

    id: str
    options: type[TargetOptions]
    build: Callable[[TargetSpec], Target]
    model_does: Callable[[TargetSpec], Mark] | None = None
    lacking: Callable[[str, TargetSpec], Iterable[str]] | None = None
    modules: Sequence[str] = ()
    model_file: bool = False
    default_weights: str = ""

    def weights_of(self, spec: TargetSpec) -> str:
        """Returns which of ragc's weights `spec` uses; "" for none."""
        return "" if spec.model else self.default_weights
