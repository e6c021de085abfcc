"""NoRetrieval and CoT: the model answers from what it knows, at once or after a chain of thought.

NoRetrieval.
Paper: the no-retrieval rows of RAG-X (Table 1), PrefRAG (section 4.2), RQ-RAG (section 3.2) and SlimPLM
(Vanilla Chat, section 4.3).
Differs: one short-answer prompt for all data sets; `cot` turns it into the CoT baseline.

Cot.
Paper: the CoT rows of SlimPLM (section 4.3, Table 1) and RQ-RAG (section 3.2, Table 2): one call that
reasons, then answers.
Differs: one prompt for all data sets, with as many demonstrations as the compiler gives it, where SlimPLM
asks without demonstrations on some sets and with fixed ones on others (authors' code). The scored text is
the answer; `whole` puts the reasoning in front of it, as containment metrics of that code saw it.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.programs.base import RagProgram
from ragc.programs.baselines.knobs import CotKnobs
from ragc.programs.knobs import AnswerKnobs
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import ClosedBookAnswer


class NoRetrieval(RagProgram):
    """One typed call, no search."""

    def __init__(self, runtime: Runtime, knobs: AnswerKnobs) -> None:
        super().__init__(runtime, knobs)
        self.answer = self.answer_call(ClosedBookAnswer)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` in one call."""
        reply = await self.answer.acall(question=question)
        return dspy.Prediction(answer=reply.answer, passages=())


class Cot(RagProgram):
    """One typed call with a reasoning field, no search."""

    def __init__(self, runtime: Runtime, knobs: CotKnobs) -> None:
        super().__init__(runtime, knobs)
        self.answer = self.answer_call(ClosedBookAnswer, cot=True)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Reasons about `question` and answers it in one call."""
        reply = await self.answer.acall(question=question)
        answer = f"{reply.reasoning}\n{reply.answer}" if self.knobs.whole else reply.answer
        return dspy.Prediction(answer=answer, passages=())
