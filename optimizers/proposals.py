"""Instruction candidates of one program, as a study keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragc.counters import Counters, counting
from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram
from ragc.progress import Progress


@dataclass(frozen=True, slots=True)
class Proposals:
    """The instructions that each predictor may have, its present ones first, and what finding them cost."""

    texts: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many each predictor may have."""
        return {name: len(texts) for name, texts in self.texts.items()}

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"texts": {name: list(t) for name, t in self.texts.items()}, "counters": dict(self.counters)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Proposals:
        """The proposals that `to_json` described."""
        texts = {name: tuple(found) for name, found in value["texts"].items()}
        return cls(texts, dict(value["counters"]))


async def propose(
    program: RagProgram, task: Task, *, limit: asyncio.Semaphore, progress: Progress
) -> Proposals:
    """At most `search.instructions` candidates a predictor of `program`, beside its present instructions."""
    from ragc.optimizers.proposing import proposed

    wanted = task.recipe.search.instructions
    progress.phase("instructions", None)
    with counting(Counters()) as spent:
        texts = await proposed(program, task, n=wanted + 1)
    new = sum(len(found) - 1 for found in texts.values())
    progress.note(f"instructions: {new} candidates for {len(texts)} predictors")
    return Proposals(texts, spent.invariant())
