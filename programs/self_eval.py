"""Self-Eval: the model says whether it needs additional information; only then is anything retrieved.

Paper: Self-Eval (Kadavath et al. 2022) as SlimPLM compares with it, section 4.3. Two typed calls: the gate,
then the answer, from passages as in `vanilla` or from what the model knows as in `no_retrieval`.
Differs: the three examples of the gate are ours and stand in its instructions, demonstrations are collected
like any other; a gate that cannot be read counts as a need.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragc.programs.runtime import Runtime
from ragc.programs.self_eval_gated import Gated
from ragc.programs.shared_knobs import PassageKnobs
from ragc.signatures.gates import NeedInfo


class SelfEval(Gated):
    """A gate on the model's own word, then one answering call."""

    def __init__(self, runtime: Runtime, knobs: PassageKnobs) -> None:
        super().__init__(runtime, knobs)
        self.gate = self.predictor(NeedInfo, max_tokens=30)

    def most_calls(self) -> int:
        """The gate, and an answer with passages or without."""
        return 2

    async def needs(self, question: str) -> tuple[bool, Mapping[str, int]]:
        """What the model says; a need when that cannot be read."""
        said = await self.gate.attempt(question=question)
        return said is None or bool(said.need), {}
