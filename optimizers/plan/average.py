"""Estimates the mean number of calls of a study's candidates, beside the upper bound.

In a wide range the greatest value takes many times the calls of most others. Candidates are therefore drawn
uniformly at random from the search space, with a fixed seed, and their calls are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import optuna
from optuna.samplers import RandomSampler

from ragc.errors import UsageError
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.search.parameters import suggest
from ragc.task.base import Task

MIN_DRAWS, MAX_DRAWS = 48, 1000
"""Candidates drawn: as many as there are trials, within these."""


@dataclass(frozen=True, slots=True)
class Average:
    """Means over random candidates: typed calls a question, and pools of demonstrations.

    `calls` is the mean of the candidates' upper bounds, `fit` the mean calls for learning from one train
    question. `collections` is the number of different demonstration pools that as many candidates as trials
    need, for at most `MAX_DRAWS`.
    """

    calls: float
    fit: float
    collections: int


def random_candidates(space: SearchSpace, seed: int) -> Iterator[Candidate]:
    """Yields candidates drawn uniformly from `space`, without end."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=RandomSampler(seed=seed))
    finally:
        optuna.logging.set_verbosity(verbosity)
    while True:
        yield suggest(space, study.ask())


def average(task: Task, space: SearchSpace, trials: int) -> Average | None:
    """Returns the averages over the `space` of `task`; None if no drawn candidate can be built."""
    calls, fits = list[int](), list[int]()
    needed = set[tuple[object, ...]]()
    drawn = islice(random_candidates(space, seed=0), min(max(MIN_DRAWS, trials), MAX_DRAWS))
    for number, candidate in enumerate(drawn):
        method = task.method_of(candidate.program)
        try:
            built = method.build(task.runtime.with_targets(candidate.targets), dict(candidate.knobs))
        except UsageError:  # no trial can have it either
            continue
        calls.append(built.most_calls_in_all())
        fits.append(built.fit_calls)
        if number < trials:
            shaping = tuple(candidate.knobs.get(name) for name in method.call_shaping_knobs)
            needed.add((candidate.program, candidate.demo_kind, *shaping))
    if not calls:
        return None
    return Average(math.fsum(calls) / len(calls), math.fsum(fits) / len(fits), len(needed))
