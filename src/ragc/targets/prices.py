"""Upper bounds on the cost of a request before a target is opened: its context and LiteLLM's prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.targets.base import Target
from ragc.targets.hosted.litellm import load
from ragc.targets.hosted.target import HostedTarget
from ragc.targets.vllm.managed import ManagedTarget
from ragc.targets.vllm.offline import OfflineTarget
from ragc.targets.vllm.target import VllmTarget


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The maximum tokens of a request (prompt plus reply), and dollars per prompt token and reply token.

    None where unknown: the context of a server that was not contacted, a price that no table has.
    """

    tokens: int | None
    prompt_usd: float | None = 0.0
    reply_usd: float | None = 0.0

    def usd(self, reply: int) -> float | None:
        """The maximum dollars of a request whose reply has at most `reply` tokens."""
        if self.prompt_usd is None or self.reply_usd is None:
            return None
        if not self.prompt_usd and not self.reply_usd:
            return 0.0
        return None if self.tokens is None else self.tokens * self.prompt_usd + reply * self.reply_usd


def request_limits(target: Target, reply: int) -> RequestLimits:
    """The limits of a request to `target` with a reply of at most `reply` tokens. Sends nothing."""
    if isinstance(target, HostedTarget):
        return _hosted_limits(target, reply)
    if isinstance(target, VllmTarget | ManagedTarget | OfflineTarget):
        return RequestLimits(target.options.context_tokens or None)
    return RequestLimits(target.context_tokens)


def _hosted_limits(target: HostedTarget, reply: int) -> RequestLimits:
    litellm = load()
    try:
        info: Mapping[str, Any] = litellm.get_model_info(target.model)
    except Exception:  # LiteLLM raises a bare Exception for an unknown model
        info = {}
    context = target.options.context_tokens or info.get("max_input_tokens") or info.get("max_tokens")
    tokens = int(context) + reply if context else None
    return RequestLimits(tokens, _dearest(info, "input"), _dearest(info, "output"))


def _dearest(info: Mapping[str, Any], side: str) -> float | None:
    """The highest price of a token on a `side`, for any prompt length; None without a price."""
    names = (name for name in info if name.startswith(f"{side}_cost_per_token"))
    prices = [float(info[name]) for name in names if isinstance(info[name], int | float)]
    return max(prices, default=None)
