"""The price of a target's tokens: the one that the user typed, else the one in LiteLLM's table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Reply, Target, Usage

MILLION = 1_000_000
PARTS = ("input", "cached_input", "output")
"""The keys of a typed price; without `cached_input` cached tokens cost as much as others."""

AROUND_REQUEST, AROUND_MESSAGE = 64, 16
"""Tokens that a chat template may add to a request, and to each of its messages."""

_REPLY_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens: of prompts, of prompt tokens read from a cache, and of replies."""

    input: float
    cached_input: float
    output: float

    @classmethod
    def of(cls, table: Mapping[str, float]) -> Price:
        """Returns the price in a table with the keys `input`, `output` and, optionally, `cached_input`.

        Raises UsageError, which completes "must be …", for other keys and for numbers below 0.
        """
        if reason := price_problem(table):
            raise UsageError(f"A price must be {reason}.")
        return cls(
            float(table["input"]), float(table.get("cached_input", table["input"])), float(table["output"])
        )

    @property
    def is_free(self) -> bool:
        """Whether no token costs anything."""
        return not (self.input or self.cached_input or self.output)

    def usd(self, usage: Usage) -> float:
        """Returns dollars of a reply with this usage."""
        fresh = usage.prompt - usage.cached
        amount = fresh * self.input + usage.cached * self.cached_input + usage.completion * self.output
        return amount / MILLION

    def most(self, prompt: int, reply: int) -> float:
        """Returns the most dollars of a prompt of `prompt` tokens with a reply of `reply` tokens."""
        return (prompt * max(self.input, self.cached_input) + reply * self.output) / MILLION


FREE = Price(0.0, 0.0, 0.0)


def price_problem(value: object) -> str:
    """Returns what a valid price is, if `value` is none; "" for a valid one."""
    words = (
        "a table of dollars per million tokens, each at least 0, such as "
        "{input = 0.15, cached_input = 0.075, output = 0.6}"
    )
    if not isinstance(value, Mapping) or not {"input", "output"} <= value.keys() <= set(PARTS):
        return words
    for amount in value.values():
        if type(amount) not in (int, float) or not 0 <= amount < math.inf:
            return words
    return ""


def typed_price(target: Target) -> Price | None:
    """Returns the price that the user gave: the option `price`, or the attribute `price` of their own target.

    Raises UsageError for an attribute that is no price.
    """
    options = getattr(target, "options", None)
    own: Any = getattr(options, "price", None) or getattr(target, "price", None)
    if own is None or own == {}:
        return None
    if isinstance(own, Price):
        return own
    if reason := price_problem(own):
        raise UsageError(
            f"The price of {target.name} must be {reason}, found {json.dumps(own, default=str)}."
        )
    return Price.of(own)


def table_price(target: Target) -> Price | None:
    """Returns the price of the model in LiteLLM's table, the highest of its tiers; `FREE` if run locally.

    None if no table has it. Imports LiteLLM, which takes seconds, for a model that it serves.
    """
    read: Any = getattr(target, "table_price", None)
    price: Any = read() if callable(read) else None
    return price if isinstance(price, Price) else None


def price_of(target: Target) -> Price | None:
    """Returns the price by which requests to `target` are reserved; None if unknown."""
    typed = typed_price(target)
    return table_price(target) if typed is None else typed


def priced(target: Target, reply: Reply) -> float:
    """Returns the dollars of `reply`: by the price that the user typed, else as the target reports."""
    price = typed_price(target)
    return reply.usd if price is None else price.usd(reply.usage)


def prompt_bound(request: ChatRequest) -> int:
    """Returns the most tokens that the prompt of `request` may have.

    A token of a text is at least one of its bytes, whatever the tokenizer.
    """
    size = AROUND_REQUEST + sum(
        len(m.content.encode("utf-8", "replace")) + AROUND_MESSAGE for m in request.messages
    )
    if request.schema is not None:
        size += len(json.dumps(request.schema, ensure_ascii=False).encode("utf-8", "replace"))
    return size


def reply_bound(target: Target, request: ChatRequest) -> int:
    """Returns the most tokens that the reply to `request` may have: its limit, or a higher one set for the
    target.
    """
    body: Mapping[str, Any] = getattr(getattr(target, "options", None), "body", {})
    limits = [body.get(name) for name in _REPLY_LIMITS] + [getattr(target, "longest_reply", None)]
    return max([request.sampling.max_tokens, *(limit for limit in limits if type(limit) is int)])
