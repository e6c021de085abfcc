"""Charges a request to a budget: reserved before each try, and settled to the real cost after it.

    begin ─► the try is sent ─┬► settle    a reply came: its tokens and dollars
                              ├► release   it was refused, or never sent: nothing
                              └► keep      it failed in any other way: the reservation

A provider may compute, and bill, a reply that never arrives. A try that fails after it was sent therefore
stays charged at its reservation, unless the provider reports its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragc.errors import RagcError, TargetError, UsageError
from ragc.targets.base import ChatRequest, Reply, Target
from ragc.targets.retry import Again
from ragc.targets.token_price import price_of, prompt_bound, reply_bound


@dataclass(frozen=True, slots=True)
class Need:
    """The greatest cost of one try of the request `key`: tokens of prompt and reply, and dollars."""

    key: str
    tokens: int
    usd: float


Wanted = Callable[[], bool]
"""Whether anybody still waits for a request."""


class Ledger(Protocol):
    """A budget: allows or refuses a try before it is sent, and records its cost.

    All methods must be called on the process's event loop.
    """

    async def reserve(self, needs: Sequence[Need], wanted: Wanted) -> Sequence[str]:
        """Reserves all of `needs`, or none; returns a number for each.

        Needs that do not fit wait while tries in flight may cost less than they reserved. Raises
        BudgetExhausted once they cannot fit any more, and CancelledError when they are no longer wanted.
        """
        ...

    def settle(self, number: str, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""
        ...

    def charge_in_full(self, number: str) -> None:
        """Charges the try `number` as it was reserved: it failed, and its cost is unknown."""
        ...

    def release(self, number: str) -> None:
        """Charges nothing for the try `number`: it was not sent, or was refused."""
        ...

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Charges a reply that was stored before; a request that was charged before is free."""
        ...


class Charge:
    """The tries of one request, one after another; a `Meter` of `ragc.targets.retry`.

    `number` is that of the reserved try, "" for none.
    """

    def __init__(
        self, ledger: Ledger, key: str, target: Target, request: ChatRequest, wanted: Wanted
    ) -> None:
        self.ledger, self._wanted, self._key = ledger, wanted, key
        self._target, self._request = target, request
        self._need: Need | None = None
        self.number = ""

    @property
    def need(self) -> Need:
        """Returns the greatest cost of one try."""
        if self._need is None:
            prompt, reply = prompt_bound(self._request), reply_bound(self._target, self._request)
            price = price_of(self._target)
            if price is None and getattr(self.ledger, "limits_usd", False):
                raise UsageError(
                    f"budget.usd cannot be held to: a request goes to {self._target.name}, whose price is "
                    "not known; give it one (of a dspy.LM: lm.price = {'input': ..., 'output': ...}, in "
                    "dollars per million tokens, 0 if it is free), or limit budget.lm_calls or budget.tokens."
                )
            usd = 0.0 if price is None else price.most(prompt, reply)
            self._need = Need(self._key, prompt + reply, usd)
        return self._need

    async def begin(self) -> None:
        """Reserves one try, unless one is reserved. Raises BudgetExhausted."""
        if not self.number:
            (self.number,) = await self.ledger.reserve([self.need], self._wanted)

    def fail(self, failure: BaseException) -> None:
        """Ends the try with `failure`, and charges its cost."""
        number, self.number = self.number, ""
        if not number:
            return
        usage: tuple[int, int] | None = getattr(failure, "usage", None)
        if is_free(failure):
            self.ledger.release(number)
        elif usage is None:
            self.ledger.charge_in_full(number)
        else:
            price = price_of(self._target)
            usd = 0.0 if price is None else price.most(*usage)
            self.ledger.settle(number, sum(usage), usd)

    def settle(self, reply: Reply) -> None:
        """Ends the try with `reply`."""
        number, self.number = self.number, ""
        if number:
            self.ledger.settle(number, reply.usage.prompt + reply.usage.completion, reply.usd)


def is_free(failure: BaseException) -> bool:
    """Returns whether a try that ended with `failure` costs nothing: it was refused, or never sent.

    A TargetError without that mark was raised after a reply was computed. So may any other exception be,
    except ragc's own, which are raised before a request is sent.
    """
    if isinstance(failure, Again | TargetError):
        return failure.refused
    return isinstance(failure, RagcError)
