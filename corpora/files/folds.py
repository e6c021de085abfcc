"""Divides few questions for cross-validation: into train and dev, and both of them into folds.

Groups stay whole in both divisions, as in drawn splits. Larger groups are placed first, each in the fold with
the fewest questions so far. Where programs learn from questions, two of every five groups are train, in an
order that spreads them over the folds. Both depend on the questions and the seed, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragc.core.display import quantity
from ragc.corpora.files.records import data_error
from ragc.corpora.files.splits import Group, group_questions
from ragc.records import Question

FOLDS = 5
"""The most folds; fewer where there are fewer groups."""

MIN_QUESTIONS = 6
"""The fewest questions for cross-validation: of five, all changed in one direction, p is 2/32."""

MAX_QUESTIONS = 59
"""The most questions for cross-validation; more are enough for a test split."""

MIN_GROUPS, MIN_TAUGHT_GROUPS = 2, 4
"""The fewest groups: without any one of them dev questions are left, and train questions where needed."""

_TRAIN = (1, 3)
"""The places among every five groups that are train."""


def divide(questions: Iterable[Question], seed: int, *, taught: bool) -> dict[str, Group]:
    """Returns all `questions` as train and dev; without `taught` all are dev."""
    groups = _by_size(questions, seed)
    train = [group for at, group in enumerate(groups) if taught and (at + at // FOLDS) % FOLDS in _TRAIN]
    dev = [group for group in groups if group not in train]
    return {
        name: tuple(q for group in held for q in group)
        for name, held in (("train", train), ("dev", dev))
        if held
    }


def fold(questions: Iterable[Question], seed: int, *, taught: bool) -> tuple[frozenset[str], ...]:
    """Returns the ids of the `questions` of each fold.

    Raises DataError for fewer than `MIN_QUESTIONS` questions, and for so few groups that nothing is left to
    choose by without one of them, nor to be `taught` by.
    """
    groups = _by_size(questions, seed)
    n, needed = sum(map(len, groups)), MIN_TAUGHT_GROUPS if taught else MIN_GROUPS
    if n < MIN_QUESTIONS:
        few = f"{quantity(n, 'question')} {'is' if n == 1 else 'are'} too few to compile"
        raise data_error("data", [f"{few}, which needs {MIN_QUESTIONS}; add some"])
    if len(groups) < needed:
        raise data_error("data", [_too_few_groups(n, len(groups), needed, taught=taught)])
    folds: list[list[str]] = [[] for _ in range(min(FOLDS, len(groups)))]
    for group in groups:
        min(folds, key=len).extend(question.id for question in group)
    return tuple(map(frozenset, folds))


def _by_size(questions: Iterable[Question], seed: int) -> list[Group]:
    return sorted(group_questions(questions, seed), key=len, reverse=True)


def _too_few_groups(n: int, groups: int, needed: int, *, taught: bool) -> str:
    held = "one group" if groups == 1 else f"{groups} groups"
    why = " where train questions are needed for demonstrations, instructions or optimizers" * taught
    less = ", or search none of these" * taught
    return (
        f"the {n} questions are {held} that must stay whole, such as those about one document, and "
        f"cross-validation needs {needed}{why}; add questions about other documents{less}, or name the splits"
    )
