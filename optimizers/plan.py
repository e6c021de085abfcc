"""The dry run: everything checked, nothing sent, and what a study would cost at most."""

from __future__ import annotations

from typing import Any

from ragc.metrics.power import small_data_note
from ragc.optimizers.calibration_curve import POINTS
from ragc.optimizers.lacking import require
from ragc.optimizers.search import OWN
from ragc.optimizers.task import Task, prepare
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.store import CallStore

SHOWN = (
    "top_k", "noise_n", "k_local", "k_web", "web_k", "k_support", "window", "ndocs", "refs_max", "flare_k",
)  # fmt: skip
"""Knobs that say how many passages a prompt shows; those that a program has are added up."""

PASSAGE = 200
"""Tokens of a passage where no knob cuts passages: what `chunk_size` is by default."""


def _thresholds(task: Task) -> int:
    """How many thresholds a study of this package fits."""
    if task.recipe.search.optimizer != OWN:
        return 0
    return sum(knob.threshold for part in task.space.parts for knob in part.knobs)


def estimate(recipe: Recipe) -> dict[str, Any]:
    """Upper bounds on calls and tokens of compiling `recipe`, and the sizes they come from.

    A question is taken to need the most calls that the baseline may make, repairs not counted, and a call
    to be as long as the baseline's longest allowed reply and a prompt of its passages at full chunk size;
    early stops, racing, replay and shared prefixes make the real cost smaller.
    """
    require(recipe)
    task = prepare(recipe, store=CallStore(None))
    program: RagProgram = task.method.build(task.runtime, recipe.fixed(task.method))
    calls = program.most_calls()
    knobs = program.knobs.to_json()
    chunk = int(knobs.get("chunk_size", PASSAGE))
    passage_tokens = sum(int(knobs.get(name, 0)) for name in SHOWN) * chunk
    reply_tokens = max(p.sampling.max_tokens for p in program.predictors())
    demo_tokens = recipe.search.demos * chunk
    others = len(task.other.questions) if task.other else 0
    trials = task.trials if task.space.size else 0
    questions = {
        "dev": len(task.dev) * (trials + 1),
        "demonstrations": len(task.train) + others if task.space.demos else 0,
        "test": 2 * len(task.test),
    }
    if trials and recipe.search.calibrate and (thresholds := _thresholds(task)):
        questions["calibration"] = len(task.dev) * thresholds * (2 + POINTS)
    most = sum(questions.values()) * calls
    limit = recipe.budget.lm_calls
    return {
        "program": recipe.program,
        "trials": trials,
        "questions": questions,
        "lm_calls": most if limit is None else min(most, limit),
        "tokens": most * (passage_tokens + reply_tokens + demo_tokens),
        "data": {name: len(held) for name, held in task.splits.items()},
        "note": small_data_note(len(task.dev), len(task.test)),
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
    }
