"""The upper bound of a program's choice: the best score of any answer that it chose among."""

from __future__ import annotations

import pytest

from ragc.errors import UnknownName, UsageError
from ragc.metrics import METRICS, Outcome, get


def test_it_is_the_best_of_the_candidates_by_the_metric_named() -> None:
    outcome = Outcome("Rome", ("Paris",), candidates=("Rome", "Paris city", "Nice"))
    names = ("f1", "upper_bound@f1", "upper_bound@em", "upper_bound@popqa_match")
    assert [get(name).score(outcome) for name in names] == [0.0, pytest.approx(2 / 3), 0.0, 1.0]


def test_a_program_without_a_choice_has_its_answer_and_one_without_an_answer_scores_0() -> None:
    assert get("upper_bound@em").score(Outcome("Paris", ("Paris",))) == 1.0
    assert get("upper_bound@em").score(Outcome(None, ("Paris",))) == 0.0


def test_a_metric_that_is_not_of_texts_is_refused_and_the_listed_row_names_none() -> None:
    for name in ("upper_bound@tokens", "upper_bound@recall@5", "upper_bound@", "upper_bound"):
        with pytest.raises(UnknownName):
            get(name)
    assert "upper_bound@metric" in {metric.id for metric in METRICS}
    with pytest.raises(UsageError, match="as in upper_bound@f1"):
        get("upper_bound@metric").score(Outcome("x"))
