"""What a language-model endpoint is to the rest of ragc: requests in, replies out.

A target answers one request at a time and knows nothing of storing, counting or budgets;
`ragc.targets.gateway` adds those for every kind alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

Role = Literal["main", "proxy", "judge", "teacher"]
ROLES: tuple[Role, ...] = ("main", "proxy", "judge", "teacher")

Capability = Literal["schema", "logprobs", "prompt_logprobs", "n", "prefix_cache", "seed"]
"""schema: replies can be forced to fit a JSON schema. logprobs: of the generated tokens.
prompt_logprobs: of the prompt's tokens. n: several samples in one request.
prefix_cache: equal prompt prefixes cost less. seed: honoured."""


Watch = Callable[[int, int], None]
"""Told how many bytes of a download are there, and how many there will be."""


class Message(NamedTuple):
    """One chat message; `content` is always plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


class TokenLogprob(NamedTuple):
    """A generated token and its natural-log probability."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is drawn. `None` leaves a value to the target.

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

    `schema` is the JSON schema that the reply must fit, or None for free text. `logprobs` asks
    for the log-probability of each generated token, `prompt_logprobs` for those of the prompt as the
    model sees it (capability `prompt_logprobs`). `sample` tells apart repeated draws of the
    same request: it is part of the store's key and never reaches the wire, except that a target
    with capability `seed` adds it to `sampling.seed` when temperature > 0.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    sampling: Sampling = Sampling()
    logprobs: bool = False
    sample: int = 0
    prompt_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply; `cached` counts the prompt tokens that cost no computation."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


_FINITE = 1e12
"""Beyond this a stored amount is damage, and no number."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `finish` is `length` when the token limit cut the text short.

    `usd` is 0 for local targets. `logprobs` and `prompt_logprobs` are empty unless asked for; the latter
    begin with the prompt's second token, since nothing comes before the first.
    """

    text: str
    finish: Literal["stop", "length"] = "stop"
    usage: Usage = Usage()
    usd: float = 0.0
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `from_json` is its inverse."""
        scored = [[t.token, t.logprob] for t in self.prompt_logprobs]
        return {
            "text": self.text,
            "finish": self.finish,
            "usage": [self.usage.prompt, self.usage.completion, self.usage.cached],
            "usd": self.usd,
            "logprobs": [[t.token, t.logprob] for t in self.logprobs],
            **({"prompt_logprobs": scored} if scored else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reply:
        """The reply that `to_json` described; raises KeyError, TypeError or ValueError for anything else."""
        text, usd, counts = value["text"], value["usd"], tuple(value["usage"])
        if not isinstance(text, str) or type(usd) not in (int, float) or not 0 <= usd <= _FINITE:
            raise ValueError("no text, or no price")
        text.encode()  # halves of surrogate pairs are refused
        if not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError("tokens are counted in whole numbers from 0")
        return cls(
            text=text,
            finish="length" if value["finish"] == "length" else "stop",
            usage=Usage(*counts),
            usd=float(usd),
            logprobs=_read_scored(value["logprobs"]),
            prompt_logprobs=_read_scored(value.get("prompt_logprobs", ())),
        )


def _read_scored(pairs: Any) -> tuple[TokenLogprob, ...]:
    if any(type(p) not in (int, float) or not -_FINITE <= p <= _FINITE for _, p in pairs):
        raise ValueError("a log-probability is no number")
    return tuple(TokenLogprob(str(t), float(min(0.0, p))) for t, p in pairs)


class Target(Protocol):
    """An endpoint that answers chat requests.

    `name` is for people (`embedded SmolLM2-135M-Instruct`). `identity` is what the call store
    keys on: it says what answers (model id and a fingerprint of the weights, or the base URL),
    not where it listens. `concurrency` is how many requests it answers at once without queueing.
    `__deepcopy__` returns the target itself.
    """

    name: str
    model: str
    concurrency: int

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do."""
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and reply together."""
        ...

    @property
    def identity(self) -> str:
        """What answers. Raises TargetUnavailable when its weights cannot be read."""
        ...

    async def open(self, progress: Watch | None = None) -> None:
        """Make ready (load weights, check the server); safe to call twice.

        `progress` is told of the bytes of a download, done and in all.
        Raises TargetUnavailable in one sentence when it cannot be made ready.
        """
        ...

    async def complete(self, request: ChatRequest) -> Reply:
        """One reply. Raises TargetUnavailable (try again) or TargetError (do not)."""
        ...

    def count_tokens(self, text: str) -> int:
        """About how many tokens `text` takes; exact where the tokenizer is at hand."""
        ...

    async def aclose(self) -> None:
        """Free what `open` took; safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """One `[targets.ROLE]` table of a recipe. `options` holds what only one kind understands."""

    kind: Literal["embedded", "vllm", "hosted"]
    model: str = ""
    base_url: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
