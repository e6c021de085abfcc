"""Self-Eval: the model says whether it needs more information; only then is anything retrieved.

Paper: the Self-Eval baseline of SlimPLM (METHODS section 6). Two typed calls: the gate, then the answer,
from passages as in `vanilla` or from what the model knows as in `no_retrieval`.
Differs: the three demonstrations of the original are not built in, the gate's demonstrations are
collected like any other; a gate that cannot be read counts as a need.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.errors import ParseFailure
from ragc.programs.runtime import Runtime
from ragc.programs.shared_knobs import PassageKnobs
from ragc.programs.trace import Note, record
from ragc.programs.vanilla import Vanilla
from ragc.signatures.answers import ClosedBookAnswer
from ragc.signatures.gates import NeedInfo


class SelfEval(Vanilla):
    """A gate on the model's own word, then one answering call."""

    def __init__(self, runtime: Runtime, knobs: PassageKnobs) -> None:
        super().__init__(runtime, knobs)
        self.gate = self.predictor(NeedInfo, max_tokens=30)
        self.closed = self.answering(ClosedBookAnswer)

    def most_calls(self) -> int:
        """The gate, and an answer with passages or without."""
        return 2

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Ask whether information is needed, then answer with or without passages."""
        if await self._needs(question):
            said = await super().aforward(question, **context)
            said.tallies = {"retrieved": 1}
            return said
        said = await self.closed.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=(), tallies={"retrieved": 0})

    async def _needs(self, question: str) -> bool:
        try:
            said = await self.gate.acall(question=question)
        except ParseFailure:
            record(Note("need", "could not be read, so it retrieves"))
            return True
        return bool(said.need)
