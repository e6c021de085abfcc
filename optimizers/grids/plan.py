"""The dry run of a grid: all inputs checked, nothing sent, and estimates of what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.optimizers.candidates.space import Candidate, search_space
from ragc.optimizers.grids.files import check_out
from ragc.optimizers.grids.record import plan_settings
from ragc.optimizers.grids.settings import build_programs
from ragc.optimizers.plan.average import candidate_calls, candidate_fit, judge_calls, pool_setting
from ragc.optimizers.plan.cost import cost_about
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.task.base import Task, prepare
from ragc.task.prompt_size import prompt_tokens
from ragc.task.requirements import require


def estimate(recipe: Recipe, out: str | Path) -> dict[str, Any]:
    """Returns estimates of the cost of recording the grid of `recipe`, without the cells that `out` has.

    `lm_calls_about` assumes that all replies are readable; settings share requests, so the real number is
    smaller still. Keys that `ragc.plan` has too mean the same. Raises what a recording raises before it sends
    anything.
    """
    where = check_out(out)
    require(recipe, study=False)
    task = prepare(recipe, store=CallStore(None))
    files, numbers = plan_settings(task, where)
    candidates = [Candidate.of(files.candidates[number]) for number in numbers]
    programs = list(build_programs(task, files.candidates, numbers))
    judging = judge_calls(task, task.dev)
    phases = {
        "settings": sum(candidate_calls(task, each) * len(task.dev) + judging for each in candidates),
        "demonstrations": _demonstrations(task, candidates),
        "learning": sum(candidate_fit(task, each) for each in candidates) * len(task.train),
    }
    limit = recipe.budget.lm_calls
    total = sum(phases.values())
    about = total if limit is None else min(total, limit)
    calls = [call for built in programs for _, call in built.named_calls()]
    reply = max((call.sampling.max_tokens for call in calls), default=0)
    prompts = [prompt_tokens(candidate.knobs, candidate.demos) for candidate in candidates]
    mean = round(sum(prompts) / len(prompts)) if prompts else 0
    return {
        "program": recipe.program,
        "out": str(where),
        "settings": len(files.candidates),
        "recorded": len(files.candidates) - len(numbers),
        "columns": list(files.columns),
        "questions": len(task.dev),
        "cells": len(numbers) * len(task.dev),
        "unknown_because": [] if math.isfinite(total) else ["the judge is asked as often as an answer needs"],
        "lm_calls_about": int(about) if math.isfinite(about) else None,
        **cost_about(task, about, mean, reply),
        "phases": {name: int(calls) if math.isfinite(calls) else None for name, calls in phases.items()},
        "budget": recipe.budget.model_dump(exclude_none=True, exclude={"trials"}),
        "data": {name: len(questions) for name, questions in task.splits.items()},
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
    }


def _demonstrations(task: Task, candidates: Iterable[Candidate]) -> float:
    """Returns the calls that collect the demonstration pools which `candidates` need."""
    space = search_space(task.recipe, task.runtime)
    collecting = (pool_setting(task, space, candidate) for candidate in candidates if candidate.demos)
    pools = {digest(candidate.knobs): candidate for candidate in collecting}
    judging = judge_calls(task, task.train)
    return sum(candidate_calls(task, each) * len(task.train) + judging for each in pools.values())
