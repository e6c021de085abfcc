"""The record of a table `[targets.NAME]`, and the options of a target of each kind in it.

Here is what kinds share; the options of one kind are in its folder. Every field states its unit, range and
default in one line, for the documentation's reference and the JSON Schema of recipes. Its mark says what it
has ragc do (`ragc.core.kinds.marks`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from ragc.core.kinds.marks import HARMLESS, Keys, Mark, RequestedAccess, Speaks
from ragc.core.redact import remember
from ragc.core.validation import (
    Checked,
    Choice,
    JsonTable,
    Key,
    Model,
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
_CAPABILITIES: tuple[str, ...] = get_args(Capability)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)

OMITTED = (
    "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "stop", "response_format", "logprobs",
    "stream_options",
)  # fmt: skip
"""The fields of a request that the option `omit` may leave out."""

AUTO = "auto"
"""The value of `thinking_tokens` that leaves the room to `ragc.targets.thinking`."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The levels of `reasoning_effort`, the least first. Not every model takes every one."""


def check_effort(name: str) -> None:
    """Raises UnknownName for an effort that no model supports."""
    if name not in EFFORTS:
        raise UnknownName("reasoning effort", name, EFFORTS)


def _check_capability(name: str) -> None:
    if name not in _CAPABILITIES:
        raise UnknownName("capability", name, _CAPABILITIES)


def _check_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if owned := sorted(_OWNED & set(body)):
        raise sentence(UsageError(f"Option body of a target cannot set {', '.join(owned)}."))
    return body


IN_PROCESS = frozenset({"vllm", "petals"})
"""LiteLLM's names of libraries that it loads into this process, with the model."""
BODY_PLAIN = frozenset({
    "frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty", "logit_bias", "top_k",
    "top_p", "min_p", "temperature", "seed", "stop", "stop_token_ids", "ignore_eos", "min_tokens",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity", "thinking",
    "chat_template_kwargs", "skip_special_tokens", "cache_prompt",
})  # fmt: skip
"""Fields of a request that shape the reply and lead nowhere else."""


class TargetSpec(Model):
    """A table `[targets.NAME]`: what every kind has. In a `Recipe`, `options` are as they were written."""

    unknown_hint = (
        " What only one kind understands goes into an `options` table; keys come from the environment."
    )

    model: Annotated[str, Text()] = Field(
        default="", description="Model: a GGUF file (embedded), the server's name of it, or a LiteLLM id."
    )
    base_url: Annotated[str, Text()] = Field(
        default="", description="Address of the server; without name, password or key."
    )
    kind: str = ""
    options: Annotated[Mapping[str, Any], JsonTable()] = Field(default_factory=dict)


class BodyMark(Mark):
    """For a table of fields that are added to every request."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the fields that may lead elsewhere, or run something."""
        if not isinstance(value, Mapping):
            yield RequestedAccess("unknown", keys, value, "is not known to be harmless")
            return
        for name, held in value.items():
            inner = held.values() if isinstance(held, Mapping) else held if isinstance(held, list) else ()
            if name not in BODY_PLAIN or any(isinstance(item, Mapping | list) for item in inner):
                runs = isinstance(held, str) and held in IN_PROCESS
                about = "adds this to every request"
                yield RequestedAccess("runs" if runs else "speaks", (*keys, name), held, about)


class VariablesMark(Mark):
    """For the variables of a chat template, which are one field of the body."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the variables where they hold tables or lists."""
        return BodyMark().accesses(keys[:-1], {keys[-1]: value})


class PriceTable(JsonTable):
    """A table with the price of a target's tokens, in the form of `ragc.targets.token_price.Price`."""

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
    """Tokens for thoughts: a whole number, or "auto"."""

    expected = 'a whole number of at least 0, or "auto"'

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        whole = core_schema.int_schema(strict=True, ge=0)
        return core_schema.union_schema([whole, core_schema.literal_schema([AUTO])])


Positive = Annotated[int, Whole(1, expected="a whole number above 0"), HARMLESS]
Natural = Annotated[int, Whole(0, expected="a whole number of at least 0"), HARMLESS]
Duration = Annotated[float, Number(above=0), HARMLESS]
Wait = Annotated[float, Number(low=0), HARMLESS]
Flag = Annotated[bool, Switch(), HARMLESS]
Capabilities = Annotated[
    tuple[Capability, ...],
    Names(
        "a list of capabilities",
        empty=True,
        repeated=True,
        check=_check_capability,
        items={"type": "string", "enum": list(_CAPABILITIES)},
    ),
    HARMLESS,
]
Fallbacks = Annotated[
    tuple[str, ...],
    Names("a list of names of other targets", empty=True, repeated=True, blank=False),
    HARMLESS,
]
Omitted = Annotated[
    tuple[str, ...], Names("a list of fields of a request", empty=True, repeated=True, blank=False), HARMLESS
]
Headers = Annotated[Mapping[str, str], JsonTable(), Speaks("sends these with every request")]
Body = Annotated[Mapping[str, Any], JsonTable(), AfterValidator(_check_body), BodyMark()]


Variable = Annotated[str, Text(empty=True), Speaks("sends the value of this environment variable")]
Identity = Annotated[str, Text(empty=True), Speaks("says what answers, under which replies are kept")]
Prices = Annotated[
    Mapping[str, float], PriceTable(), Speaks("says what replies cost, by which budget.usd is kept")
]

_BODY_OPTIONS = ("reasoning_effort", "chat_template_kwargs")
"""Options that are fields of a request's body."""


class TargetOptions(Options):
    """The options of a target; errors name it by `kind`."""

    kind: ClassVar[str]

    price: Prices = Field(
        default_factory=dict,
        description="Dollars per million tokens: a table of `input`, `output` and, if other than `input`, "
        "`cached_input`. Each from 0. Empty takes LiteLLM's table, and 0 for a model of your own machine.",
    )
    thinking_tokens: Annotated[int | str | None, Room(), HARMLESS] = Field(
        default=None,
        description="Tokens of room for thoughts on top of every limit on a reply: from 0, or `auto` for "
        "what the effort suggests. By default `auto` for a model that is known to "
        "think, else 0.",
    )
    reasoning_effort: Annotated[str, Choice("reasoning effort", EFFORTS), HARMLESS] = Field(
        default="",
        description=f"How much a model thinks: {', '.join(EFFORTS)}, as far as it takes them. By default "
        "nothing is sent, and the model decides.",
    )
    chat_template_kwargs: Annotated[Mapping[str, Any], JsonTable(), VariablesMark()] = Field(
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
        """Returns an error that names the option."""
        article = "an" if cls.kind[0] in "aeiou" else "a"
        name = f"Option {dotted(key.own)} of {article} {cls.kind} target"
        return UsageError(f"{name} must be {expected}, got {shown(value)}.")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """Returns an error that names the kind of target, and lists its options."""
        return UnknownName(f"option of {cls.kind} targets", str(key.own[-1]), cls.model_fields)


class ServerOptions(TargetOptions):
    """The options that servers and hosted models have in common."""

    api_key_env: Variable = Field(
        default="",
        description="Environment variable that holds the API key. Empty sends no key, or the provider's own.",
    )
    identity: Identity = Field(
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
    omit: Omitted = Field(
        default=(),
        description="Fields to leave out of the body of every request, because the server refuses them: "
        f"{', '.join(OMITTED)}. Without max_tokens the whole context is reserved.",
    )
    headers: Headers = Field(
        default_factory=dict,
        description='Headers of every request. "$NAME" or "${NAME}" in a value stands for an environment '
        "variable; a secret must be one.",
    )
    query: Headers = Field(
        default_factory=dict,
        description='Parameters after the address of every request, such as api-version; "$NAME" as in '
        "headers.",
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

    def correct(self, capabilities: Iterable[Capability]) -> frozenset[Capability]:
        """Returns the `capabilities`, with `has` added and `lacks` removed."""
        return (frozenset(capabilities) | frozenset(self.has)) - frozenset(self.lacks)


def variables(values: Mapping[str, str]) -> frozenset[str]:
    """Returns the names of the environment variables that stand in `headers` or `query`."""
    return frozenset(braced or bare for value in values.values() for braced, bare in _VARIABLE.findall(value))


def with_variables(values: Mapping[str, str]) -> dict[str, str]:
    """Returns `headers` or `query` with the values of the environment variables in them.

    Raises UsageError for a variable that is not set.
    """
    if unset := sorted(name for name in variables(values) if not os.environ.get(name, "").strip()):
        raise UsageError(f"The environment variable {unset[0]} is not set; set it, or change {[*values]}.")
    return {
        key: _VARIABLE.sub(lambda found: remember(os.environ[found[1] or found[2]].strip()), value)
        for key, value in values.items()
    }
