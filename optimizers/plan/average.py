"""Estimates what the candidates of a study take on average, by rehearsals of candidates drawn at random.

In a wide range the greatest value takes many times the calls of most others. Candidates are therefore drawn
uniformly at random from the search space, with a fixed seed, and their calls are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import optuna
from optuna.samplers import RandomSampler

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.metrics import most_judge_calls
from ragc.metrics.base import Metric, families
from ragc.optimizers.candidates.demos.setting import demo_setting
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.search.parameters import suggest
from ragc.records import Question
from ragc.task.base import Task
from ragc.task.rehearsal import calls_about, fit_calls_about

DRAWS = 16
"""Candidates that are rehearsed."""


@dataclass(frozen=True, slots=True)
class Average:
    """Means over random candidates: LM calls a question, and for learning from one train question.

    `pools` is the share of the candidates whose demonstrations are of a pool of their own.
    """

    calls: float
    fit: float
    pools: float


def judge_calls(task: Task, questions: Iterable[Question], metrics: Sequence[Metric] | None = None) -> float:
    """Returns the judge's calls to score one answer to each of `questions`, by default by all metrics.

    Infinite where they depend on the answer.
    """
    if "judge" not in task.runtime.targets:
        return 0
    read = families(task.metrics if metrics is None else metrics)
    return sum(most_judge_calls(read, task.recipe.metrics, question) for question in questions)


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


def candidate_calls(task: Task, candidate: Candidate) -> int:
    """Returns about how many LM calls a question takes. Raises UsageError if `candidate` cannot be built."""
    runtime = task.runtime.with_targets(candidate.targets)
    return calls_about(task.method_of(candidate.program), runtime, candidate.knobs)


def candidate_fit(task: Task, candidate: Candidate) -> int:
    """Returns about how many LM calls learning from one train question takes."""
    runtime = task.runtime.with_targets(candidate.targets)
    return fit_calls_about(task.method_of(candidate.program), runtime, candidate.knobs)


def pool_setting(task: Task, space: SearchSpace, candidate: Candidate) -> Candidate:
    """Returns the candidate that collects the demonstrations of `candidate`."""
    method = task.method_of(candidate.program)
    base = space.part(candidate).baseline().knobs
    setting = demo_setting(method, task.runtime, base, candidate.knobs)
    return Candidate(setting, program=candidate.program)


def average(task: Task, space: SearchSpace) -> Average | None:
    """Returns the averages over the `space` of `task`; None if no drawn candidate can be built."""
    calls, fits, pools = list[int](), list[int](), set[str]()
    for candidate in islice(random_candidates(space, seed=0), DRAWS):
        try:
            calls.append(candidate_calls(task, candidate))
            fits.append(candidate_fit(task, candidate))
            collecting = pool_setting(task, space, candidate)
        except UsageError:  # no trial can have it either
            continue
        pools.add(digest([collecting.program, collecting.knobs, candidate.demo_kind]))
    if not calls:
        return None
    return Average(math.fsum(calls) / len(calls), math.fsum(fits) / len(fits), len(pools) / len(calls))
