"""The dry run: everything checked, nothing sent, and what a study would cost at most."""

from __future__ import annotations

from typing import Any

from ragc.optimizers.task import prepare
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.store import CallStore


def estimate(recipe: Recipe) -> dict[str, Any]:
    """Upper bounds on calls and tokens of compiling `recipe`, and the sizes they come from.

    A call is taken to be as long as the baseline's longest allowed reply and a prompt of its passages
    at full chunk size; racing, replay and shared prefixes make the real cost smaller.
    """
    task = prepare(recipe, store=CallStore(None))
    program: RagProgram = task.method.build(task.runtime, dict(recipe.knobs))
    calls = max(1, len(program.predictors()))
    knobs = program.knobs.to_json()
    passage_tokens = int(knobs.get("top_k", 0)) * int(knobs.get("chunk_size", 0))
    reply_tokens = max(p.sampling.max_tokens for p in program.predictors())
    demo_tokens = recipe.search.demos * int(knobs.get("chunk_size", 0))
    trials = task.trials if task.space.size else 0
    questions = {
        "dev": len(task.dev) * (trials + 1),
        "demonstrations": len(task.train) if task.space.demos else 0,
        "test": 2 * len(task.test),
    }
    most = sum(questions.values()) * calls
    limit = recipe.budget.lm_calls
    return {
        "program": recipe.program,
        "trials": trials,
        "questions": questions,
        "lm_calls": most if limit is None else min(most, limit),
        "tokens": most * (passage_tokens + reply_tokens + demo_tokens),
        "data": {name: len(held) for name, held in task.splits.items()},
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
    }
