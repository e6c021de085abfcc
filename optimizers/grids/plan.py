"""The dry run of a grid: all inputs checked, nothing sent, and upper bounds on what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.grids.files import check_out
from ragc.optimizers.grids.record import plan_settings
from ragc.optimizers.grids.settings import build_programs
from ragc.optimizers.plan.call_bounds import REQUESTS, judge_calls, longest_chain
from ragc.optimizers.plan.cost import cost_bounds
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.task.base import Task, prepare
from ragc.task.prompt_size import prompt_tokens
from ragc.task.requirements import require


def estimate(recipe: Recipe, out: str | Path) -> dict[str, Any]:
    """Returns upper bounds on the cost of recording the grid of `recipe`, without the cells that `out` has.

    `lm_calls` are requests, with a retry for every unreadable reply; `lm_calls_about` are those if all
    replies are readable. Settings share requests, so the real number is smaller still. Keys that `ragc.plan`
    has too mean the same. Raises what a recording raises before it sends anything.
    """
    where = check_out(out)
    require(recipe, study=False)
    task = prepare(recipe, store=CallStore(None))
    files, numbers = plan_settings(task, where)
    candidates = [Candidate.of(files.candidates[number]) for number in numbers]
    programs = list(build_programs(task, files.candidates, numbers))
    judging = judge_calls(task, task.dev)
    phases = {
        "settings": sum(built.most_calls() * len(task.dev) + judging for built in programs),
        "demonstrations": _demonstrations(task, candidates),
        "learning": sum(built.fit_calls for built in programs) * len(task.train),
    }
    about = sum(phases.values())
    requests, limit = longest_chain(task) * REQUESTS * about, recipe.budget.lm_calls
    most = requests if limit is None else min(requests, limit)
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
        "bounded": math.isfinite(most),
        "unbounded_because": []
        if math.isfinite(requests)
        else ["the judge is asked as often as an answer needs"],
        "lm_calls": int(most) if math.isfinite(most) else None,
        "lm_calls_about": int(min(about, most)) if math.isfinite(min(about, most)) else None,
        **cost_bounds(task, most, min(about, most), mean, reply),
        "phases": {name: int(calls) if math.isfinite(calls) else None for name, calls in phases.items()},
        "budget": recipe.budget.model_dump(exclude_none=True, exclude={"trials"}),
        "data": {name: len(held) for name, held in task.splits.items()},
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
    }


def _demonstrations(task: Task, candidates: Iterable[Candidate]) -> float:
    """Returns the typed calls that collect the demonstration pools which `candidates` need."""
    base, settings = task.baseline_knobs, {}
    for candidate in candidates:
        if candidate.demos:
            setting = task.method.demo_setting(base, candidate.knobs)
            settings[digest(setting)] = setting
    total = 0.0
    for setting in settings.values():
        built = task.method.build(task.runtime, setting)
        taught = any(not set(call.signature.output_fields) <= {"answer"} for _, call in built.named_calls())
        total += built.most_calls() * len(task.train) * (1 + taught) + judge_calls(task, task.train)
    return total
