"""NoRetrieval: the model answers from what it knows.

Paper: the no-retrieval rows of RAG-X (Table 1), PrefRAG (section 4.2), RQ-RAG (section 3.2) and SlimPLM
(Vanilla Chat, section 4.3).
Differs: one short-answer prompt for all data sets; `cot` turns it into the CoT baseline.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.shared_knobs import AnswerKnobs
from ragc.signatures.answers import ClosedBookAnswer


class NoRetrieval(RagProgram):
    """One typed call, no search."""

    def __init__(self, runtime: Runtime, knobs: AnswerKnobs) -> None:
        super().__init__(runtime, knobs)
        self.answer = self.answering(ClosedBookAnswer)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer `question` in one call."""
        said = await self.answer.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=())
