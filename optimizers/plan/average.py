"""How many calls the candidates of a study take on average, beside the most that any of them takes.

Of a wide range the greatest setting takes many times the calls of most others. So a number of candidates is
drawn at random from the whole search space, always the same ones, and their calls are averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import optuna
from optuna.samplers import RandomSampler

from ragc.errors import UsageError
from ragc.optimizers.search.sampler import suggest
from ragc.optimizers.task import Task

DRAWN = 48
"""Candidates that are drawn."""


@dataclass(frozen=True, slots=True)
class Average:
    """Of candidates drawn at random: typed calls a question, and collections of demonstrations.

    `calls` is the mean of what each takes at most, `fit` that of learning from one train question.
    `collections` is how many different collections of demonstrations as many candidates as trials need.
    """

    calls: float
    fit: float
    collections: int


def average(task: Task, trials: int) -> Average | None:
    """The averages over the search space of `task`; None where no drawn candidate can be built."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=RandomSampler(seed=0))
    finally:
        optuna.logging.set_verbosity(verbosity)
    calls, fits = list[int](), list[int]()
    needed = set[tuple[object, ...]]()
    for number in range(max(DRAWN, trials)):
        candidate = suggest(task.space, study.ask())
        method = task.method_of(candidate.program)
        try:
            built = method.build(task.runtime.with_targets(candidate.targets), dict(candidate.knobs))
        except UsageError:  # no trial has it either
            continue
        calls.append(built.most_calls())
        fits.append(built.fit_calls)
        if number < trials:
            shaping = tuple(candidate.knobs.get(name) for name in method.call_shaping_knobs)
            needed.add((candidate.program, candidate.demo_kind, *shaping))
    if not calls:
        return None
    return Average(math.fsum(calls) / len(calls), math.fsum(fits) / len(fits), len(needed))
