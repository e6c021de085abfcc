"""Upper bounds on the cost of a request before a target is opened: its context and its price."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.targets.base import Target
from ragc.targets.reasoning import room_of
from ragc.targets.token_price import FREE, MILLION, Price, price_of

__all__ = ["FREE", "MILLION", "Price", "RequestLimits", "request_limits"]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The maximum tokens of a request (prompt plus reply), and dollars per prompt token and reply token.

    None if unknown: the context of a server that was not contacted, a price that is in no table. `thinking`
    are the tokens for thoughts that a reply may have beside its answer.
    """

    tokens: int | None
    prompt_usd: float | None = 0.0
    reply_usd: float | None = 0.0
    thinking: int = 0

    def usd(self, reply: int) -> float | None:
        """Returns the maximum dollars of a request whose answer has at most `reply` tokens."""
        if self.prompt_usd is None or self.reply_usd is None:
            return None
        if not self.prompt_usd and not self.reply_usd:
            return 0.0
        if self.tokens is None:
            return None
        return self.tokens * self.prompt_usd + (reply + self.thinking) * self.reply_usd


def request_limits(target: Target, reply: int) -> RequestLimits:
    """Returns the limits of a request to `target` with an answer of at most `reply` tokens. Sends nothing."""
    price, thinking = price_of(target), room_of(target)
    read, written = (None, None) if price is None else (price.most(1, 0), price.most(0, 1))
    return RequestLimits(_context(target, reply + thinking), read, written, thinking)


def _context(target: Target, reply: int) -> int | None:
    whole = getattr(target, "whole_context", target.context_tokens + room_of(target)) or None
    return whole + reply if whole and target.name.startswith("hosted ") else whole
