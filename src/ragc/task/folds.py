"""Cross-validation in place of a test split: the task of the search without a fold, and all questions.

The search that ships its program has all questions. One search a fold has all but those of the fold, in the
same order and with the same seed, so that most of its answers are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragc.records import Question
from ragc.task.base import Task, data_facts

NEW_ANSWERS = 0.5
"""Answers that the search without a fold is taken to ask anew, as a share of those on all questions.

Searches of knobs ask far fewer (`experiments/benchmarks/scoring/cross_validation.py`), those of
demonstrations, which are others without a fold, up to all.
"""


def share_until(search: int, folds: int) -> float:
    """Returns the share of a budget that may be spent when a search of a cross-validation ends.

    Search 0 is that on all questions, search 1 that without the first of `folds` folds. Without folds all.
    """
    return (1 + search * NEW_ANSWERS) / (1 + folds * NEW_ANSWERS)


def questions_of(task: Task) -> tuple[Question, ...]:
    """Returns all questions that are cross-validated."""
    return (*task.train, *task.dev)


def fold_tasks(task: Task) -> list[tuple[Task, tuple[Question, ...]]]:
    """Returns the task without each fold, and the questions of the fold."""
    every = questions_of(task)
    return [
        (_without(task, ids, share_until(at, len(task.folds))), tuple(q for q in every if q.id in ids))
        for at, ids in enumerate(task.folds, start=1)
    ]


def _without(task: Task, ids: frozenset[str], until: float) -> Task:
    splits = {name: tuple(q for q in held if q.id not in ids) for name, held in task.splits.items()}
    facts = {**task.facts, "data": {**task.facts["data"], **data_facts(splits)}}
    return replace(task, splits=splits, facts=facts, folds=(), until=until)


def held_calls(task: Task, each: Mapping[str, float]) -> int:
    """Returns the LM calls that the budget holds back for the searches after that of `task`.

    `each` are the tokens and dollars of a call. The limit that the fewest calls reach decides.
    """
    budget = task.recipe.budget
    limits = {"lm_calls": 1.0, **each}
    calls = [limit / each_ for name, each_ in limits.items() if each_ and (limit := getattr(budget, name))]
    return round((1 - task.until) * min(calls, default=0.0))
