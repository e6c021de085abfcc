"""Folds of few questions: whole groups, of even sizes, whatever the order of the file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.files.folds import FOLDS, divide, fold
from ragc.errors import DataError
from ragc.records import Question


def questions(groups: list[int]) -> list[Question]:
    """Questions of these groups; 0 is a group of its own."""
    return [
        Question(f"q{at}", f"Question number {at}?", ("yes",), group=f"g{group}" if group else "")
        for at, group in enumerate(groups)
    ]


@given(st.lists(st.integers(0, 12), min_size=6, max_size=59), st.booleans(), st.randoms())
@settings(max_examples=60, deadline=None)
def test_folds_and_splits_are_whole_groups_of_all_questions(
    groups: list[int], taught: bool, rng: object
) -> None:
    every = questions(groups)
    named = {group for group in groups if group}
    if len(named) + groups.count(0) < 4:
        return
    folds, splits = fold(every, 7, taught=taught), divide(every, 7, taught=taught)
    assert sorted(name for ids in folds for name in ids) == sorted(q.id for q in every)
    assert sorted(q.id for held in splits.values() for q in held) == sorted(q.id for q in every)
    for group in named:
        members = {q.id for q in every if q.group == f"g{group}"}
        parts = [*folds, *({q.id for q in held} for held in splits.values())]
        assert sum(bool(members & part) for part in parts) == 2
    for ids in folds:
        for held in splits.values():  # without any fold there is still something to learn from and choose by
            assert any(q.id not in ids for q in held)
    shuffled = list(every)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (fold(shuffled, 7, taught=taught), divide(shuffled, 7, taught=taught)) == (folds, splits)


def test_independent_questions_have_five_even_folds() -> None:
    assert [len(ids) for ids in fold(questions([0] * 40), 1, taught=False)] == [8] * FOLDS
    assert {name: len(held) for name, held in divide(questions([0] * 40), 1, taught=True).items()} == {
        "train": 16,
        "dev": 24,
    }


@pytest.mark.parametrize(
    ("groups", "taught", "message"),
    [
        ([0] * 5, False, "5 questions are too few to compile, which needs 6; add some"),
        (
            [1] * 20,
            False,
            "the 20 questions are one group that must stay whole, such as those about one document",
        ),
        ([1, 2, 3] * 4, True, "12 questions are 3 groups .* needs 4 where train questions are needed"),
    ],
)
def test_what_cannot_be_divided_says_why(groups: list[int], taught: bool, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fold(questions(groups), 1, taught=taught)
