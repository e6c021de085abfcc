"""What a recipe may set for a target of each kind, beside its model and base URL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, get_args

from ragc.core.bounded import MOST_BYTES
from ragc.errors import UnknownName, UsageError
from ragc.targets.base import Capability

T = TypeVar("T")

_SAID = {
    bool: "true or false",
    str: "text",
    int: "whole number",
    float: "number",
    tuple: "list",
    dict: "table",
}
_HUGE = 1e15
"""No option is a number so great."""

_OWNED = frozenset(
    {"api_key", "api_base", "base_url", "headers", "extra_headers", "messages", "model", "n", "stream"}
)
_SERVED = frozenset(
    {"host", "port", "uds", "model", "dtype", "max-model-len", "served-model-name", "api-key"}
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What servers and hosted models have in common.

    `api_key_env` names the environment variable that holds the key. `identity` replaces model and
    base URL as what the call store keys on. `context_tokens` 0 asks the server, or LiteLLM's table.
    `timeout_s` bounds the wait for a reply, `total_s` all tries of one request together (0: two and
    a half times `timeout_s`); a try that was not answered in time is made again. Of one reply at most
    `max_reply_bytes` are read, unpacked. `has` and `lacks` correct the capabilities found. `body` is merged
    into every request and is part of the identity.
    """

    api_key_env: str = ""
    identity: str = ""
    concurrency: int = 64
    context_tokens: int = 0
    timeout_s: float = 120.0
    connect_timeout_s: float = 10.0
    tries: int = 4
    total_s: float = 0.0
    max_reply_bytes: int = MOST_BYTES
    restart_s: float = 180.0
    break_after: int = 5
    cool_down_s: float = 30.0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    fallbacks: tuple[str, ...] = ()
    has: tuple[Capability, ...] = ()
    lacks: tuple[Capability, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        above = ("concurrency", "timeout_s", "connect_timeout_s", "tries", "break_after", "max_reply_bytes")
        for name in above:
            value = getattr(self, name)
            if value <= 0:
                raise UsageError(f"Option {name} of a target must be above 0, got {value}.")
        rates = ("requests_per_minute", "tokens_per_minute")
        for name in ("context_tokens", "total_s", "restart_s", "cool_down_s", *rates):
            value = getattr(self, name)
            if value < 0:
                raise UsageError(f"Option {name} of a target must not be below 0, got {value}.")
        for capability in (*self.has, *self.lacks):
            if capability not in get_args(Capability):
                raise UnknownName("capability", str(capability), get_args(Capability))
        if "" in self.fallbacks or not all(isinstance(name, str) for name in self.fallbacks):
            raise UsageError(f"Option fallbacks of a target must list names, got {list(self.fallbacks)!r}.")
        owned = sorted(_OWNED & set(self.body))
        if owned:
            raise UsageError(f"Option body of a target cannot set {', '.join(owned)}.")

    @property
    def total(self) -> float:
        """Seconds that all tries of one request may take together."""
        return self.total_s or 2.5 * self.timeout_s

    @property
    def patience(self) -> float:
        """Seconds that a server which went away is waited for: none where another answers meanwhile."""
        return 0.0 if self.fallbacks else self.restart_s

    def corrected(self, found: Iterable[Capability]) -> frozenset[Capability]:
        """The capabilities `found`, with `has` added and `lacks` taken away."""
        return (frozenset(found) | frozenset(self.has)) - frozenset(self.lacks)


@dataclass(frozen=True, slots=True)
class VllmOptions(ServerOptions):
    """What a recipe may set for a server.

    With `serve` one is started, or found if it runs: by the interpreter `python` ("" is this one), with
    `dtype`, `context_tokens` and further `flags` of vLLM's by name; it has `start_s` seconds to be ready.
    With `offline` vLLM's engine runs in this process instead, with the same settings.
    """

    serve: bool = False
    offline: bool = False
    python: str = ""
    dtype: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)
    start_s: float = 1200.0

    def __post_init__(self) -> None:
        ServerOptions.__post_init__(self)
        if self.serve and self.offline:
            raise UsageError("A vllm target has serve = true or offline = true, not both.")
        given = [name for name in ("python", "dtype", "flags") if getattr(self, name)]
        if given and not (self.serve or self.offline):
            raise UsageError(f"Option {given[0]} of a vllm target loads a model and needs serve = true.")
        if self.offline and self.python:
            raise UsageError(
                "Option python of a vllm target names who serves; offline = true runs in this one."
            )
        if self.start_s <= 0:
            raise UsageError(f"Option start_s of a target must be above 0, got {self.start_s}.")
        own = {name.replace("_", "-").lstrip("-") for name in self.flags} & _SERVED
        if own:
            raise UsageError(
                f"Option flags of a vllm target cannot set {', '.join(sorted(own))}: ragc does, from model, "
                "dtype and context_tokens."
            )


@dataclass(frozen=True, slots=True)
class HostedOptions(ServerOptions):
    """What a recipe may set for a hosted model; LiteLLM has one timeout for connecting and reading."""

    concurrency: int = 16


def check_names(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownName for the first of `given` that no option of `kind` has."""
    known = list(known)
    for name in given:
        if name not in known:
            raise UnknownName(f"option of {kind} targets", name, known)


def read_options(cls: Callable[..., T], kind: str, given: Mapping[str, Any]) -> T:
    """`cls`, a dataclass of options, from a recipe's table; each value must be of its default's type."""
    declared = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    check_names(kind, given, declared)
    values: dict[str, Any] = {}
    for name, said in given.items():
        value, f = said, declared[name]
        expected = type(f.default_factory() if f.default_factory is not MISSING else f.default)
        if expected is float and type(value) is int and abs(value) < _HUGE:
            value = float(value)
        if expected is tuple and isinstance(value, list):
            value = tuple(value)
        if type(value) is not expected:
            raise UsageError(
                f"Option {name} of a {kind} target must be of type {_SAID[expected]}, got {repr(value)[:60]}."
            )
        if isinstance(value, int | float) and not abs(value) < _HUGE:  # NaN is below nothing
            raise UsageError(f"Option {name} of a {kind} target is no amount: {repr(value)[:60]}.")
        values[name] = value
    return cls(**values)
