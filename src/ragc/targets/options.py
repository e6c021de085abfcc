"""Options of a target of each kind, from a recipe or a caller, in addition to its model and base URL.

One model per kind. Every field states its unit, range and default in one line; the documentation's reference
and the JSON Schema of recipes are generated from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from ragc.core.bounded import MOST_BYTES
from ragc.core.validation import (
    Checked,
    Choice,
    JsonTable,
    Key,
    Names,
    Number,
    Options,
    Switch,
    Text,
    Whole,
    dotted,
    sentence,
    shown,
    wrong,
)
from ragc.errors import UnknownName, UsageError
from ragc.targets.base import Capability
from ragc.targets.token_price import PARTS, price_problem

_OWNED = frozenset(
    {"api_key", "api_base", "base_url", "headers", "extra_headers", "messages", "model", "n", "stream"}
)
_SERVED = frozenset(
    {"host", "port", "uds", "model", "dtype", "max-model-len", "served-model-name", "api-key"}
)
_CAPABILITIES: tuple[str, ...] = get_args(Capability)

AUTO = "auto"
"""The value of `thinking_tokens` that leaves the room to `ragc.targets.thinking`."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The levels of `reasoning_effort`, the least first. Not every model takes every one."""


def check_effort(name: str) -> None:
    """Raise UnknownName for an effort that no model takes."""
    if name not in EFFORTS:
        raise UnknownName("reasoning effort", name, EFFORTS)


def _check_capability(name: str) -> None:
    if name not in _CAPABILITIES:
        raise UnknownName("capability", name, _CAPABILITIES)


def _check_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if owned := sorted(_OWNED & set(body)):
        raise sentence(UsageError(f"Option body of a target cannot set {', '.join(owned)}."))
    return body


def _check_flags(flags: Mapping[str, Any]) -> Mapping[str, Any]:
    if served := {name.replace("_", "-").lstrip("-") for name in flags} & _SERVED:
        raise sentence(
            UsageError(
                f"Option flags of a vllm target cannot set {', '.join(sorted(served))}: ragc does, from "
                "model, dtype and context_tokens."
            )
        )
    return flags


class PriceTable(JsonTable):
    """A table with the price of a target's tokens, as `ragc.targets.token_price.Price` has it."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        amount = {"type": "number", "minimum": 0}
        return {"type": "object", "propertyNames": {"enum": list(PARTS)}, "additionalProperties": amount}

    def _read(self, value: object) -> dict[str, Any]:
        if reason := price_problem(value):
            raise wrong(reason)
        return super()._read(value)


class Room(Checked):
    """Tokens of room for thoughts: a whole number, or "auto"."""

    expected = 'a whole number of at least 0, or "auto"'

    def schema(self) -> CoreSchema:
        """Pydantic's schema of the type."""
        whole = core_schema.int_schema(strict=True, ge=0)
        return core_schema.union_schema([whole, core_schema.literal_schema([AUTO])])


Positive = Annotated[int, Whole(1, expected="a whole number above 0")]
Natural = Annotated[int, Whole(0, expected="a whole number of at least 0")]
Duration = Annotated[float, Number(above=0)]
Wait = Annotated[float, Number(low=0)]
Capabilities = Annotated[
    tuple[Capability, ...],
    Names(
        "a list of capabilities",
        empty=True,
        repeated=True,
        check=_check_capability,
        items={"type": "string", "enum": list(_CAPABILITIES)},
    ),
]
Fallbacks = Annotated[
    tuple[str, ...],
    Names("a list of names of other targets", empty=True, repeated=True, blank=False),
]
Body = Annotated[Mapping[str, Any], JsonTable(), AfterValidator(_check_body)]
Flags = Annotated[Mapping[str, Any], JsonTable(), AfterValidator(_check_flags)]


_BODY_OPTIONS = ("reasoning_effort", "chat_template_kwargs")
"""Options that are fields of a request's body."""


class TargetOptions(Options):
    """The options of a target; `kind` is how errors name it."""

    kind: ClassVar[str]

    price: Annotated[Mapping[str, float], PriceTable()] = Field(
        default_factory=dict,
        description="Dollars per million tokens: a table of `input`, `output` and, if other than `input`, "
        "`cached_input`. Each from 0. Empty takes LiteLLM's table, and 0 for a model of your own machine.",
    )
    thinking_tokens: Annotated[int | str | None, Room()] = Field(
        default=None,
        description="Tokens of room for thoughts on top of every limit on a reply: from 0, or `auto` for "
        "what `ragc doctor` measured or the effort suggests. By default `auto` for a model that is known to "
        "think, else 0.",
    )
    reasoning_effort: Annotated[str, Choice("reasoning effort", EFFORTS)] = Field(
        default="",
        description=f"How much a model thinks: {', '.join(EFFORTS)}, as far as it takes them. By default "
        "nothing is sent, and the model decides.",
    )
    chat_template_kwargs: Annotated[Mapping[str, Any], JsonTable()] = Field(
        default_factory=dict,
        description="Variables of the model's chat template, such as `enable_thinking`. They are part of the "
        "stored identity.",
    )

    @property
    def template_variables(self) -> Mapping[str, Any]:
        """The variables of the chat template, where ragc applies it itself: the effort is one of them."""
        effort = {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {**effort, **self.chat_template_kwargs}

    @property
    def sent(self) -> Mapping[str, Any]:
        """The fields that are merged into the body of every request: `body`, and the options above."""
        own = {name: getattr(self, name) for name in _BODY_OPTIONS}
        return {**getattr(self, "body", {}), **{name: value for name, value in own.items() if value}}

    @classmethod
    def wrong_value(cls, key: Key, expected: str, value: object) -> UsageError:
        """The error names the option."""
        article = "an" if cls.kind[0] in "aeiou" else "a"
        name = f"Option {dotted(key.own)} of {article} {cls.kind} target"
        return UsageError(f"{name} must be {expected}, got {shown(value)}.")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """The error names the kind of target, and lists its options."""
        return UnknownName(f"option of {cls.kind} targets", str(key.own[-1]), cls.model_fields)


class EmbeddedOptions(TargetOptions):
    """Options of a target of kind `embedded`: a model inside this process."""

    kind = "embedded"

    context: Annotated[int, Whole(64, expected="a whole number from 64")] = Field(
        default=4096,
        description="Tokens of prompt and reply together. From 64; the default model takes up to 8192.",
    )
    parallel: Positive = Field(
        default=4, description="Requests answered at once, each with a context of its own. From 1."
    )
    threads: Natural = Field(
        default=0,
        description="Processor threads that compute. 0 uses the physical cores that this process may use.",
    )
    timeout_s: Duration = Field(
        default=600.0, description="Seconds after which a reply is given up. Above 0."
    )
    quiet: Annotated[bool, Switch()] = Field(
        default=True, description="Whether llama.cpp is silent. false lets it write to stderr."
    )
    keep_prefixes: Annotated[bool, Switch()] = Field(
        default=True,
        description="Whether the computed instructions and demonstrations stay on disk for later processes.",
    )


class ServerOptions(TargetOptions):
    """What servers and hosted models have in common."""

    api_key_env: Annotated[str, Text(empty=True)] = Field(
        default="",
        description="Environment variable that holds the API key. Empty sends no key, or the provider's own.",
    )
    identity: Annotated[str, Text(empty=True)] = Field(
        default="", description="Name under which replies are stored. Empty uses the model and the base URL."
    )
    concurrency: Positive = Field(default=64, description="Requests in flight at once. From 1.")
    context_tokens: Natural = Field(
        default=0, description="Tokens of prompt and reply together. 0 asks the server, or LiteLLM's table."
    )
    timeout_s: Duration = Field(
        default=120.0, description="Seconds to wait for one reply before a new try. Above 0."
    )
    connect_timeout_s: Duration = Field(
        default=10.0, description="Seconds to wait for a connection. Above 0."
    )
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    total_s: Wait = Field(
        default=0.0,
        description="Seconds for all tries of one request together. 0 allows two and a half times timeout_s.",
    )
    max_reply_bytes: Positive = Field(
        default=MOST_BYTES, description="Bytes of one reply, unpacked, that are read at most. From 1."
    )
    restart_s: Wait = Field(
        default=180.0,
        description="Seconds to wait for a server that went away. Does not apply where fallbacks are set.",
    )
    break_after: Positive = Field(
        default=5,
        description="Failures in a row after which a model at an endpoint is not asked for a while. From 1.",
    )
    cool_down_s: Wait = Field(default=30.0, description="Seconds until such a model is asked again. From 0.")
    requests_per_minute: Natural = Field(
        default=0, description="Requests in any sixty seconds, retries included. 0 is no limit."
    )
    tokens_per_minute: Natural = Field(
        default=0, description="Tokens of prompts and replies in any sixty seconds. 0 is no limit."
    )
    fallbacks: Fallbacks = Field(
        default=(), description="Names of targets that answer while this one cannot, the first one first."
    )
    has: Capabilities = Field(default=(), description="Capabilities to add to those that were detected.")
    lacks: Capabilities = Field(
        default=(), description="Capabilities to take away from those that were detected."
    )
    body: Body = Field(
        default_factory=dict,
        description="Fields to merge into the body of every request. They are part of the stored identity.",
    )

    @model_validator(mode="after")
    def _check_twice(self) -> Self:
        for name in _BODY_OPTIONS:
            if getattr(self, name) and name in self.body:
                raise sentence(
                    UsageError(
                        f"A {self.kind} target has {name} as an option and in body; leave one of them out."
                    )
                )
        return self

    @property
    def total(self) -> float:
        """Maximum seconds for all tries of one request."""
        return self.total_s or 2.5 * self.timeout_s

    @property
    def patience(self) -> float:
        """Seconds to wait for a server that is down; 0 with fallbacks, which answer meanwhile."""
        return 0.0 if self.fallbacks else self.restart_s

    def correct(self, capabilities: Iterable[Capability]) -> frozenset[Capability]:
        """The `capabilities`, with `has` added and `lacks` removed."""
        return (frozenset(capabilities) | frozenset(self.has)) - frozenset(self.lacks)


class VllmOptions(ServerOptions):
    """Options of a target of kind `vllm`: a running server, one that ragc starts, or vLLM in this process."""

    kind = "vllm"

    serve: Annotated[bool, Switch()] = Field(
        default=False, description="Whether to start a vLLM server, or use the one that ragc started before."
    )
    offline: Annotated[bool, Switch()] = Field(
        default=False, description="Whether to run vLLM's engine inside this process instead of a server."
    )
    python: Annotated[str, Text(empty=True)] = Field(
        default="", description="Interpreter that runs vLLM with serve = true. Empty is the current one."
    )
    dtype: Annotated[str, Text(empty=True)] = Field(
        default="", description="Number format of the weights, as vLLM names it. Empty lets vLLM choose."
    )
    flags: Flags = Field(
        default_factory=dict, description="Further flags of vLLM by name, without dashes in front."
    )
    start_s: Duration = Field(
        default=1200.0, description="Seconds until a server that is started must be ready. Above 0."
    )

    @model_validator(mode="after")
    def _check_loading(self) -> Self:
        if self.serve and self.offline:
            raise sentence(UsageError("A vllm target has serve = true or offline = true, not both."))
        loading = [name for name in ("python", "dtype", "flags") if getattr(self, name)]
        if loading and not (self.serve or self.offline):
            raise sentence(
                UsageError(f"Option {loading[0]} of a vllm target loads a model and needs serve = true.")
            )
        if self.offline and self.python:
            raise sentence(
                UsageError(
                    "Option python of a vllm target names who serves; offline = true runs in this one."
                )
            )
        return self


class HostedOptions(ServerOptions):
    """Options of a target of kind `hosted`; LiteLLM has one timeout for connecting and reading."""

    kind = "hosted"

    concurrency: Positive = Field(default=16, description="Requests in flight at once. From 1.")


OPTIONS: dict[str, type[TargetOptions]] = {
    "embedded": EmbeddedOptions,
    "vllm": VllmOptions,
    "hosted": HostedOptions,
}
"""The options of a target by its kind."""
