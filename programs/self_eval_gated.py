"""Gated: an answer from passages or from what the model knows, as the method's gate decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from ragc.programs.runtime import Runtime
from ragc.programs.shared_knobs import PassageKnobs
from ragc.programs.vanilla import Vanilla
from ragc.signatures.answers import ClosedBookAnswer


class Gated(Vanilla):
    """Answers as `vanilla` does where `needs` says so, and as `no_retrieval` does elsewhere."""

    def __init__(self, runtime: Runtime, knobs: PassageKnobs) -> None:
        super().__init__(runtime, knobs)
        self.closed = self.answering(ClosedBookAnswer)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Let the gate decide, then answer with or without passages."""
        needed, tallies = await self.needs(question)
        said = await (self.retrieved if needed else self.recalled)(question, **context)
        said.tallies = {"retrieved": int(needed), **tallies}
        return said

    async def needs(self, question: str) -> tuple[bool, Mapping[str, int]]:
        """Whether `question` needs passages, and what the gate counts of itself."""
        raise NotImplementedError(f"{type(self).__name__} has no gate")

    async def retrieved(self, question: str, **context: Any) -> dspy.Prediction:
        """The answer from passages, whatever the gate says."""
        return await super().aforward(question, **context)

    async def recalled(self, question: str, **context: Any) -> dspy.Prediction:
        """The answer without passages, whatever the gate says."""
        said = await self.closed.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=())
