"""The record of a table `[targets.NAME]`, and the options of a target of each kind in it.

Every field states its unit, range and default in one line, for the documentation's reference and the JSON
Schema of recipes. Its mark says what it has ragc do (`ragc.core.marks`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ragc.core import tables
from ragc.core.marks import HARMLESS, Does
from ragc.core.redact import holds_key, is_secret_name, remember
from ragc.core.tables import Choice, Flag, Json, PlacedTable, Table, Words
from ragc.errors import UsageError
from ragc.targets.base import Capability
from ragc.targets.prices import Price

_OWNED = frozenset({
    "api_key", "api_base", "base_url", "custom_llm_provider", "headers", "extra_headers", "messages", "model",
    "n", "stream",
})  # fmt: skip
_SERVED = frozenset(
    {"host", "port", "uds", "model", "dtype", "max-model-len", "served-model-name", "api-key"}
)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The levels of `reasoning_effort`, the least first. Not every model takes every one."""

OMITTED = (
    "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "stop", "response_format", "logprobs",
    "stream_options",
)  # fmt: skip
"""The fields of a request that the option `omit` may leave out."""


class TargetSpec(PlacedTable):
    """A table `[targets.NAME]`: what every kind has. `options` are as they were written."""

    kind: str = ""
    model: Words = Field(
        default="",
        description="Model: a GGUF file or owner/repository:file.gguf of the Hugging Face Hub (embedded), "
        "the server's name of it, or a LiteLLM id.",
    )
    base_url: Words = Field(default="", description="Address of the server; without name, password or key.")
    options: Json = Field(default_factory=dict, description="What only this kind understands.")


def _check_body(body: dict[str, Any]) -> dict[str, Any]:
    if owned := sorted(_OWNED & body.keys()):
        raise ValueError(f"body cannot set {', '.join(owned)}: ragc does, and an option may")
    return body


def _check_reasoning(tokens: object) -> object:
    if tokens not in (None, "auto") and not (type(tokens) is int and tokens >= 0):
        raise ValueError('must be a whole number of at least 0, or "auto"')
    return tokens


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if _VARIABLE.search(value) is None and (is_secret_name(name) or holds_key(value)):
            raise ValueError(
                f"{name} holds a secret, and recipes are passed on; put it into an environment variable and "
                f'write "$NAME"'
            )
    return headers


def _check_flags(flags: dict[str, Any]) -> dict[str, Any]:
    if served := {name.replace("_", "-").lstrip("-") for name in flags} & _SERVED:
        raise ValueError(
            f"flags cannot set {', '.join(sorted(served))}: ragc does, from model, dtype and context_tokens"
        )
    return flags


Positive = Annotated[tables.Positive, HARMLESS]
Natural = Annotated[tables.Whole, HARMLESS]
Duration = Annotated[tables.Above, HARMLESS]
Capabilities = Annotated[tuple[Capability, ...], HARMLESS]
Headers = Annotated[
    dict[str, str], AfterValidator(_check_headers), Does("speaks", "sends these with every request")
]

_BODY_OPTIONS = ("reasoning_effort", "chat_template_kwargs")
"""Options that are fields of a request's body."""


class TargetOptions(Table):
    """The options of a target of any kind."""

    price: Annotated[Price | None, Does("speaks", "says what replies cost, by which budget.usd is kept")] = (
        Field(
            default=None,
            description="Dollars per million tokens: a table of `input`, `output` and, if not as `input`, "
            "`cached_input`. Each from 0. By default LiteLLM's table, and 0 for a model of your own machine.",
        )
    )
    thinking_tokens: Annotated[int | str | None, BeforeValidator(_check_reasoning), HARMLESS] = Field(
        default=None,
        description="Tokens for reasoning on top of every limit on a reply: from 0, or `auto` for what the "
        "effort suggests. By default `auto` for a model that is known to reason, else 0.",
    )
    reasoning_effort: Annotated[str, Choice(EFFORTS), HARMLESS] = Field(
        default="",
        description=f"How much a model reasons: {', '.join(EFFORTS)}, as far as it takes them. By default "
        "nothing is sent, and the model decides.",
    )
    chat_template_kwargs: Annotated[Json, HARMLESS] = Field(
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
        own = {name: value for name in _BODY_OPTIONS if (value := getattr(self, name))}
        return {**getattr(self, "body", {}), **own}


class ServerOptions(TargetOptions):
    """The options that servers and hosted models have in common."""

    api_key_env: Annotated[str, Does("speaks", "sends the value of this environment variable")] = Field(
        default="",
        description="Environment variable that holds the API key. Empty sends no key, or the provider's own.",
    )
    identity: Annotated[str, Does("speaks", "says what answers, under which replies are kept")] = Field(
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
    total_s: Annotated[tables.FromZero, HARMLESS] = Field(
        default=0.0,
        description="Seconds for all tries of one request together. 0 allows two and a half times timeout_s.",
    )
    requests_per_minute: Natural = Field(
        default=0, description="Requests in any sixty seconds, retries included. 0 is no limit."
    )
    tokens_per_minute: Natural = Field(
        default=0, description="Tokens of prompts and replies in any sixty seconds. 0 is no limit."
    )
    fallbacks: Annotated[tuple[Words, ...], HARMLESS] = Field(
        default=(), description="Names of targets that answer while this one cannot, the first one first."
    )
    has: Capabilities = Field(default=(), description="Capabilities to add to those that were detected.")
    lacks: Capabilities = Field(
        default=(), description="Capabilities to take away from those that were detected."
    )
    body: Annotated[Json, AfterValidator(_check_body), Does("speaks", "adds these to every request")] = Field(
        default_factory=dict,
        description="Fields to merge into the body of every request. They are part of the stored identity.",
    )
    omit: Annotated[tuple[Annotated[str, Choice(OMITTED)], ...], HARMLESS] = Field(
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
        if twice := [name for name in _BODY_OPTIONS if getattr(self, name) and name in self.body]:
            raise ValueError(f"has {twice[0]} as an option and in body; leave one of them out")
        return self

    @property
    def total(self) -> float:
        """Maximum seconds for all tries of one request."""
        return self.total_s or 2.5 * self.timeout_s

    def correct(self, capabilities: Iterable[Capability]) -> frozenset[Capability]:
        """Returns the `capabilities`, with `has` added and `lacks` removed."""
        return (frozenset(capabilities) | frozenset(self.has)) - frozenset(self.lacks)


class HostedOptions(ServerOptions):
    """Options of a target of kind `hosted`; LiteLLM has one timeout for connecting and reading."""

    concurrency: Positive = Field(default=16, description="Requests in flight at once. From 1.")


class VllmOptions(ServerOptions):
    """Options of a target of kind `vllm`: a running server, or one that ragc starts."""

    serve: Annotated[Flag, Does("runs", "starts a server")] = Field(
        default=False, description="Whether to start a vLLM server, or use the one that ragc started before."
    )
    python: Annotated[str, Does("runs", "names the program that serves")] = Field(
        default="", description="Interpreter that runs vLLM with serve = true. Empty is the current one."
    )
    dtype: Annotated[str, HARMLESS] = Field(
        default="", description="Number format of the weights, as vLLM names it. Empty lets vLLM choose."
    )
    flags: Annotated[Json, AfterValidator(_check_flags), Does("runs", "sets flags of that program")] = Field(
        default_factory=dict, description="Further flags of vLLM by name, without dashes in front."
    )
    start_s: Duration = Field(
        default=1200.0, description="Seconds until a server that is started must be ready. Above 0."
    )

    @model_validator(mode="after")
    def _check_loading(self) -> Self:
        loading = [name for name in ("python", "dtype", "flags") if getattr(self, name)]
        if loading and not self.serve:
            raise ValueError(f"{loading[0]} loads a model and needs serve = true")
        return self


class EmbeddedOptions(TargetOptions):
    """Options of a target of kind `embedded`: a model inside this process."""

    context: Annotated[int, Field(strict=True, ge=64), HARMLESS] = Field(
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
    quiet: Annotated[Flag, HARMLESS] = Field(
        default=True, description="Whether llama.cpp is silent. false lets it write to stderr."
    )


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
