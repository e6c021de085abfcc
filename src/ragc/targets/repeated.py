"""A target that is asked again: its replies are drawn anew and stored apart from the first ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ragc.targets.base import ChatRequest, Reply, Target

SAMPLE_SHIFT = 1 << 20
"""Added to the number of a sample for each repetition, so that a seeded target draws another reply."""


def repeated(target: Target, number: int = 1) -> Target:
    """Returns `target` with replies that are not those of its first run; `number` counts from 1.

    Greedy requests are sent unchanged, sampled ones with another number of the sample, from which targets
    with the capability `seed` derive their seed. It is opened with `target`, and closed with it.
    """
    return cast(Target, _Repeated(target, number))


class _Repeated:
    def __init__(self, target: Target, number: int) -> None:
        self._target, self._number = target, number

    def __deepcopy__(self, memo: object) -> _Repeated:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    @property
    def identity(self) -> str:
        """That of the target, marked."""
        run = "a second run" if self._number == 1 else f"run {self._number + 1}"
        return f"{self._target.identity}, {run}"

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the target's reply to `request`, drawn again if it is sampled."""
        if request.sampling.temperature > 0:
            request = replace(request, sample=request.sample + SAMPLE_SHIFT * self._number)
        return await self._target.complete(request)

    async def aclose(self) -> None:
        """Does nothing: the target is open for the first run too."""
