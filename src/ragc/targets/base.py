"""The interface of a language-model endpoint: requests in, replies out.

A target answers one request at a time. Storing, counting and budgets are added by `ragc.targets.gateway`, for
every kind of target. Reports of a server are made safe to store and show: well-formed text, plausible
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from ragc.core.redact import mask_keys
from ragc.core.text import repair_surrogates

if TYPE_CHECKING:
    from ragc.core.marks import Keys, RequestedAccess
    from ragc.targets.options import TargetOptions, TargetSpec

Role = Literal["main", "proxy", "judge", "teacher"]
ROLES: tuple[Role, ...] = ("main", "proxy", "judge", "teacher")

Capability = Literal["schema", "logprobs", "prompt_logprobs", "n", "prefix_cache", "seed"]
"""What a target can do.

    schema            force replies to fit a JSON schema
    logprobs          log-probabilities of the generated tokens
    prompt_logprobs   log-probabilities of the prompt's tokens
    n                 the samples of one call are asked at once
    prefix_cache      equal prompt prefixes cost less
    seed              the seed is respected
"""


Watch = Callable[[int, int], None]
"""Callback for a download: bytes done, and bytes in total."""

parts_taker: ContextVar[Callable[[str], None] | None] = ContextVar("ragc_parts_taker", default=None)
"""Takes the parts of a reply as they come, where somebody follows it; called in any thread, once a part.

A target that gets a reply in parts calls it with each part of the text. Others leave it alone.
"""


class Message(NamedTuple):
    """One chat message; `content` is plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


class TokenLogprob(NamedTuple):
    """A generated token and its natural-log probability."""

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


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply; `cached` counts the prompt tokens read from a prefix cache.

    `thinking` counts the tokens of `completion` that are thoughts of the model.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Returns the tokens of two replies together."""
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.thinking + other.thinking,
        )


_FINITE = 1e12
"""The largest plausible stored amount; a larger one is treated as damage."""


Finish = Literal["stop", "length", "refusal", "content_filter", "tool_calls"]
"""Why a reply ends.

    stop             it is complete
    length           the token limit cut it short
    refusal          the model refuses; `text` is what it says
    content_filter   a filter of the server stopped it
    tool_calls       the model calls tools in place of an answer; `text` spells the calls
"""

FINISHES: tuple[Finish, ...] = get_args(Finish)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. `text` is without the model's thoughts; `thoughts` holds their beginning and end.

    `usd` is 0 for local targets. `logprobs` and `prompt_logprobs` are empty unless requested.
    `prompt_logprobs` begins with the prompt's second token: the first has no predecessor. `seconds` are from
    sending the request to its reply; 0 if unknown.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage()
    usd: float = 0.0
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    thoughts: str = ""
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only, without empty fields of thinking models; `from_json` is its inverse."""
        scored, used = [[t.token, t.logprob] for t in self.prompt_logprobs], self.usage
        thinking = [used.thinking] if used.thinking else []
        return {
            "text": self.text,
            "finish": self.finish,
            "usage": [used.prompt, used.completion, used.cached, *thinking],
            "usd": self.usd,
            "logprobs": [[t.token, t.logprob] for t in self.logprobs],
            **({"prompt_logprobs": scored} if scored else {}),
            **({"thoughts": self.thoughts} if self.thoughts else {}),
            **({"seconds": self.seconds} if self.seconds else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reply:
        """Returns the inverse of `to_json`; raises KeyError, TypeError or ValueError for any other value."""
        text, usd, counts = value["text"], value["usd"], tuple(value["usage"])
        thoughts, finish = value.get("thoughts", ""), value["finish"]
        seconds = value.get("seconds", 0.0)
        if (
            not isinstance(text, str)
            or not isinstance(thoughts, str)
            or not all(type(n) in (int, float) and 0 <= n <= _FINITE for n in (usd, seconds))
        ):
            raise ValueError("no text, no price, or no time")
        (text + thoughts).encode()  # lone surrogates are refused
        if not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError("tokens are counted in whole numbers from 0")
        return cls(
            text=text,
            finish=finish if finish in FINISHES else "stop",
            usage=Usage(*counts),
            usd=float(usd),
            logprobs=_read_scored(value["logprobs"]),
            prompt_logprobs=_read_scored(value.get("prompt_logprobs", ())),
            thoughts=thoughts,
            seconds=float(seconds),
        )


def _read_scored(pairs: Any) -> tuple[TokenLogprob, ...]:
    if any(type(p) not in (int, float) or not -_FINITE <= p <= _FINITE for _, p in pairs):
        raise ValueError("a log-probability is no number")
    return tuple(TokenLogprob(str(t), float(min(0.0, p))) for t, p in pairs)


MAX_REPORTED_TOKENS = 2**31 - 1
"""Maximum plausible token count reported by a server."""

MIN_LOGPROB = -9999.0
"""Replaces the log of probability 0, as in vLLM's server."""


def token_count(value: Any) -> int | None:
    """Returns `value` if it is a token count, an integer from 0 to `MAX_REPORTED_TOKENS`; otherwise None."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_REPORTED_TOKENS else None


def price(value: Any) -> float | None:
    """Returns `value` in dollars if it is a finite number of at least 0; otherwise None."""
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def log_probability(value: Any) -> float:
    """Returns `value` clipped to `MIN_LOGPROB`..0; raises ValueError if it is not a number."""
    if type(value) not in (int, float) or value != value:
        raise ValueError("a log-probability is no number")
    return float(max(MIN_LOGPROB, value)) if value <= 0 else 0.0


def usage(
    prompt: Any, completion: Any, cached: Any, request: ChatRequest, text: str, count: Callable[[str], int]
) -> Usage:
    """Returns the reported token counts; missing or implausible ones are estimated with `count`.

    `cached` is 0 if it is implausible or exceeds the prompt's count.
    """
    read, written, known = token_count(prompt), token_count(completion), token_count(cached)
    if read is None:
        read = sum(count(message.content) for message in request.messages)
    if written is None:
        written = count(text)
    return Usage(read, written, known if known is not None and known <= read else 0)


def sanitize(reply: Reply, request: ChatRequest, count: Callable[[str], int]) -> Reply:
    """Returns `reply` made safe to store, so that it is the same when it is replayed.

    A key of this user's that it echoes is masked, and a `finish` that is none of `FINISHES` is "stop".

    Raises ValueError where its text or a log-probability is invalid.
    """
    if not all(isinstance(text, str) for text in (reply.text, reply.thoughts)):
        raise ValueError("the text of a reply is no text")
    text, thoughts = repair_surrogates(reply.text), mask_keys(repair_surrogates(reply.thoughts))
    reported_usage = reply.usage
    counted = usage(
        reported_usage.prompt, reported_usage.completion, reported_usage.cached, request, text, count
    )
    thinking = min(token_count(reported_usage.thinking) or 0, counted.completion)
    usd = price(reply.usd)
    scored, prompt = (
        tuple(map(_sanitize_token, tokens)) for tokens in (reply.logprobs, reply.prompt_logprobs)
    )
    if (masked := mask_keys(text)) != text:  # its tokens spell the key too
        scored = tuple(TokenLogprob("", token.logprob) for token in scored)
    return replace(
        reply,
        text=masked,
        finish=reply.finish if reply.finish in FINISHES else "stop",
        usage=replace(counted, thinking=thinking),
        usd=usd or 0.0,
        logprobs=scored,
        prompt_logprobs=prompt,
        thoughts=thoughts,
    )


def _sanitize_token(token: TokenLogprob) -> TokenLogprob:
    return TokenLogprob(repair_surrogates(str(token.token)), log_probability(token.logprob))


class Target(Protocol):
    """An endpoint that answers chat requests.

    `name` is for users (`embedded SmolLM2-135M-Instruct`). `identity` is part of the call store's key: it
    identifies the model (its id and a fingerprint of the weights, or the base URL), not the address.
    `concurrency` is the number of requests answered at once without queueing. `__deepcopy__` returns the
    target itself.
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
        """The context size in tokens, for prompt and reply together."""
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
        ...

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`. Raises TargetUnavailable (may be retried) or TargetError
        (permanent).
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Returns the approximate number of tokens in `text`; exact where the tokenizer is available."""
        ...

    async def aclose(self) -> None:
        """Releases what `open` acquired. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class TargetKind:
    """The record of a kind of target, which validation, building, trust and requirements read.

    `options` checks the table `options` and marks what each option does. `build` makes the target of a spec,
    loading and sending nothing. `accesses` yields what a spec at given keys would run, read or speak to
    beside its address and its options; `published` names the options of a spec that everybody may set.
    `lacking` gives a sentence for each thing that this machine lacks for a spec, which it calls by its first
    argument, beside `modules`, which must be installed. `model_file` is set where `model` is a file of
    weights; `model_folder` says whether it may be a folder, for given options. `default_weights` says which
    weights of ragc's are used where no model is named, "" for none.
    """

    id: str
    options: type[TargetOptions]
    build: Callable[[TargetSpec], Target]
    accesses: Callable[[Keys, TargetSpec], Iterable[RequestedAccess]] | None = None
    lacking: Callable[[str, TargetSpec], Iterable[str]] | None = None
    modules: Sequence[str] = ()
    model_file: bool = False
    default_weights: str = ""
    model_folder: Callable[[Mapping[str, Any]], bool] | None = None
    published: Callable[[TargetSpec], Collection[str]] = lambda spec: ()

    def weights_of(self, spec: TargetSpec) -> str:
        """Returns which of ragc's weights `spec` uses; "" for none."""
        return "" if spec.model else self.default_weights
