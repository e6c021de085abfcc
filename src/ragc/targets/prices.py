"""What a target's tokens cost: by the price that the user typed, else by LiteLLM's table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ragc.core.tables import FromZero, Table
from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Reply, Target, Usage

MILLION = 1_000_000
AROUND_REQUEST, AROUND_MESSAGE = 64, 16
"""Tokens that a chat template may add to a request, and to each of its messages."""


class Price(Table):
    """Dollars per million tokens: of prompts, of replies, and of prompt tokens read from a cache.

    Each is at least 0. Without `cached_input` cached tokens cost as much as others.
    """

    input: FromZero = Field(description="Dollars per million tokens of prompts.", examples=[0.15])
    output: FromZero = Field(description="Dollars per million tokens of replies.", examples=[0.6])
    cached_input: FromZero = Field(
        default_factory=lambda price: price.get("input", 0.0),
        description="Dollars per million tokens of prompts that a cache held. By default as `input`.",
    )

    def usd(self, usage: Usage) -> float:
        """Returns dollars of a reply with this usage."""
        fresh = max(0, usage.prompt - usage.cached)
        return (
            fresh * self.input + usage.cached * self.cached_input + usage.completion * self.output
        ) / MILLION

    def most(self, prompt: int, reply: int) -> float:
        """Returns the most dollars of a prompt of `prompt` tokens with a reply of `reply` tokens."""
        return (prompt * max(self.input, self.cached_input) + reply * self.output) / MILLION


EXAMPLE = "dollars per million tokens such as {input = 0.15, cached_input = 0.075, output = 0.6}"
FREE = Price(input=0, output=0)


def typed_price(target: Target) -> Price | None:
    """Returns the price that the user gave: the option `price`, or the attribute `price` of their own target.

    Raises UsageError for what is no price.
    """
    price: Any = getattr(getattr(target, "options", None), "price", None) or getattr(target, "price", None)
    if price is None or isinstance(price, Price):
        return price
    return Price.of(price, f"The price of {target.name}, {EXAMPLE}: ")


def price_of(target: Target) -> Price | None:
    """Returns the price by which requests to `target` are reserved: the typed one, else the highest tier in
    LiteLLM's table, `FREE` for what runs locally. None if unknown.
    """
    return typed_price(target) or getattr(target, "table_price", lambda: None)()


def priced(target: Target, reply: Reply) -> float:
    """Returns the dollars of `reply`: by the typed price, else as the target reports."""
    price = typed_price(target)
    return reply.usd if price is None else price.usd(reply.usage)


def most_tokens(target: Target, request: ChatRequest) -> Usage:
    """Returns the most tokens that the prompt of `request` and its reply may have.

    A token of a text is at least one of its bytes, whatever the tokenizer. A reply has the request's limit, a
    higher one set for the target, or the whole context where no limit is sent.
    """
    schemas = [] if request.schema is None else [json.dumps(request.schema, ensure_ascii=False)]
    texts = [*schemas, *(message.content for message in request.messages)]
    prompt = AROUND_REQUEST + sum(len(text.encode("utf-8", "replace")) + AROUND_MESSAGE for text in texts)
    options = getattr(target, "options", None)
    body: Mapping[str, Any] = getattr(options, "body", {})
    limits = body.get("max_tokens"), body.get("max_completion_tokens"), getattr(target, "longest_reply", None)
    known = [limit for limit in limits if type(limit) is int]
    if "max_tokens" in getattr(options, "omit", ()) and not known:
        known = [target.context_tokens]
    return Usage(prompt, max([request.sampling.max_tokens, *known]))


def most_context(target: Target) -> int | None:
    """Returns the most tokens of a prompt and its reply to `target`; None before a server said so."""
    return getattr(target, "whole_context", target.context_tokens) or None


def most_usd(target: Target, prompt: int | None, reply: int) -> float | None:
    """Returns the most dollars of a prompt of `prompt` tokens with a reply of `reply`; None if unknown."""
    price = price_of(target)
    if price == FREE:
        return 0.0
    return None if price is None or prompt is None else price.most(prompt, reply)


def check_priced(targets: Mapping[str, Target]) -> None:
    """Raises UsageError if the price of any of `targets`, by name, is unknown: dollars cannot be limited."""
    unknown = {name: target for name, target in targets.items() if price_of(target) is None}
    if unknown:
        named = ", ".join(f"{name} ({target.name})" for name, target in unknown.items())
        raise UsageError(
            f"budget.usd cannot be held to: the price of {named} is not known; set targets."
            f"{next(iter(unknown))}.options.price = {{input = ..., output = ...}} in dollars per million "
            "tokens, 0 if it is free (give a target of your own an attribute `price`, a dspy.LM "
            "ragc.target(lm, price=...)), or limit budget.lm_calls or budget.tokens in the place of dollars."
        )
