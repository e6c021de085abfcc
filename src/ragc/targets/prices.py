"""What a target's tokens cost: by the price that the user typed, else by LiteLLM's table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Reply, Target, Usage

MILLION = 1_000_000
AROUND_REQUEST, AROUND_MESSAGE = 64, 16
"""Tokens that a chat template may add to a request, and to each of its messages."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens: of prompts, of prompt tokens read from a cache, and of replies."""

    input: float
    cached_input: float
    output: float

    @classmethod
    def of(cls, table: Any, of: str = "A price") -> Price:
        """Returns the price in a table with the keys `input`, `output` and, optionally, `cached_input`.

        Without it cached tokens cost as much as others. `of` begins the message. Raises UsageError for
        other keys and for numbers below 0.
        """
        if reason := price_problem(table):
            raise UsageError(f"{of} must be {reason}, found {json.dumps(table, default=str)}.")
        read, written = float(table["input"]), float(table["output"])
        return cls(read, float(table.get("cached_input", read)), written)

    def usd(self, usage: Usage) -> float:
        """Returns dollars of a reply with this usage."""
        fresh = max(0, usage.prompt - usage.cached)
        amount = fresh * self.input + usage.cached * self.cached_input + usage.completion * self.output
        return amount / MILLION

    def most(self, prompt: int, reply: int) -> float:
        """Returns the most dollars of a prompt of `prompt` tokens with a reply of `reply` tokens."""
        return (prompt * max(self.input, self.cached_input) + reply * self.output) / MILLION


FREE = Price(0.0, 0.0, 0.0)


def price_problem(value: object) -> str:
    """Returns what a valid price is, if `value` is none; "" for a valid one."""
    is_price = (
        isinstance(value, Mapping)
        and {"input", "output"} <= value.keys() <= {"input", "cached_input", "output"}
        and all(type(amount) in (int, float) and 0 <= amount < math.inf for amount in value.values())
    )
    example = "{input = 0.15, cached_input = 0.075, output = 0.6}"
    return "" if is_price else f"a table of dollars per million tokens, each at least 0, such as {example}"


def typed_price(target: Target) -> Price | None:
    """Returns the price that the user gave: the option `price`, or the attribute `price` of their own target.

    Raises UsageError for what is no price.
    """
    price: Any = getattr(getattr(target, "options", None), "price", None) or getattr(target, "price", None)
    if not price or isinstance(price, Price):
        return price or None
    return Price.of(price, f"The price of {target.name}")


def price_of(target: Target) -> Price | None:
    """Returns the price by which requests to `target` are reserved: the typed one, else the highest tier in
    LiteLLM's table, `FREE` for what runs locally. None if unknown.
    """
    price = typed_price(target)
    return getattr(target, "table_price", lambda: None)() if price is None else price


def priced(target: Target, reply: Reply) -> float:
    """Returns the dollars of `reply`: by the typed price, else as the target reports."""
    price = typed_price(target)
    return reply.usd if price is None else price.usd(reply.usage)


def most_tokens(target: Target, request: ChatRequest) -> Usage:
    """Returns the most tokens that the prompt of `request` and its reply may have.

    A token of a text is at least one of its bytes, whatever the tokenizer. A reply has the request's limit, a
    higher one set for the target, or the whole context where no limit is sent.
    """
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema, ensure_ascii=False))
    prompt = AROUND_REQUEST + sum(len(text.encode("utf-8", "replace")) + AROUND_MESSAGE for text in texts)
    options = getattr(target, "options", None)
    body: Mapping[str, Any] = getattr(options, "body", {})
    limits = [*map(body.get, ("max_tokens", "max_completion_tokens")), getattr(target, "longest_reply", None)]
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
