"""A target that is asked again: its replies are drawn anew and stored apart from the first ones."""

from __future__ import annotations

from dataclasses import replace

from ragc.targets.base import Capability, ChatRequest, Reply, Target, Watch
from ragc.targets.reasoning import room_of
from ragc.targets.token_price import Price, table_price

SAMPLE_SHIFT = 1 << 20
"""Added to the number of a sample for each repetition, so that a seeded target draws another reply."""


class RepeatedTarget:
    """A target whose replies are not those of the first run: they are stored under another identity.

    `number` counts repetitions from 1. Greedy requests are sent unchanged, sampled ones with another number
    of the sample, from which targets with the capability `seed` derive their seed. It is opened and closed
    with the wrapped target.
    """

    def __init__(self, target: Target, number: int = 1) -> None:
        self._target, self._number = target, number
        self.name, self.model, self.concurrency = target.name, target.model, target.concurrency
        self.options = getattr(target, "options", None)
        self.endpoint = getattr(target, "endpoint", "")
        self.price = getattr(target, "price", None)
        self.longest_reply = getattr(target, "longest_reply", None)
        self.template_tokens = getattr(target, "template_tokens", 0)

    def __deepcopy__(self, memo: object) -> RepeatedTarget:
        return self

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those of the target."""
        return self._target.capabilities

    @property
    def context_tokens(self) -> int:
        """That of the target."""
        return self._target.context_tokens

    @property
    def reasoning_tokens(self) -> int:
        """The target's reasoning tokens."""
        return room_of(self._target)

    @property
    def identity(self) -> str:
        """That of the target, marked."""
        return (
            f"{self._target.identity}, {'a second run' if self._number == 1 else f'run {self._number + 1}'}"
        )

    def table_price(self) -> Price | None:
        """Returns the table price of the wrapped target."""
        return table_price(self._target)

    async def open(self, progress: Watch | None = None) -> None:
        """Opens the target."""
        await self._target.open(progress)

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the target's reply to `request`, drawn again if it is sampled."""
        if request.sampling.temperature > 0:
            request = replace(request, sample=request.sample + SAMPLE_SHIFT * self._number)
        return await self._target.complete(request)

    def count_tokens(self, text: str) -> int:
        """Counts tokens as the wrapped target does."""
        return self._target.count_tokens(text)

    async def aclose(self) -> None:
        """Does nothing: the target is open for the first run too."""
