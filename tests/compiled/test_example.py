"""The example that a compile prints: a question whose wrong answer became right, chosen by rule."""

from __future__ import annotations

import pytest

from ragc import metrics
from ragc.compiled.verdict import choose_example
from ragc.metrics.base import Objective
from ragc.metrics.short_answer import f1
from ragc.records import Question
from ragc.task.answering import Row

GOLD = ("str.join", "join")
OBJECTIVE = Objective(metrics.get("f1"), 1)


def rows(*predictions: str | None) -> list[Row]:
    """Rows of the questions q9, q8, ..., with their F1."""
    questions = [Question(f"q{9 - number}", "Which method?", GOLD) for number in range(len(predictions))]
    return [
        Row(question, prediction, (), {"f1": f1(prediction, GOLD)}, {})
        for question, prediction in zip(questions, predictions, strict=True)
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (("split", "split", "split"), ("join", "join", "split"), "q8"),  # the first by id that became right
        (("split", "join them", "split"), ("join", "join", "split"), "q9"),  # a word of it was there
        (("split", "str.join()", "split"), ("join", "join", "split"), "q9"),  # it was right in another form
        (("split", None, "split"), ("join", "join", "split"), "q8"),  # no answer is wrong
        (("split", "split"), ("trim", "trim"), "q8"),  # nothing became right
        (("split", "split"), ("trim", None), "q9"),
    ],
)
def test_the_first_question_by_id_that_was_wrong_in_content(
    before: tuple[str | None, ...], after: tuple[str | None, ...], expected: str
) -> None:
    chosen = choose_example(OBJECTIVE, rows(*before), rows(*after))
    assert chosen is not None
    assert [row.question.id for row in chosen] == [expected, expected]
    assert chosen[1].prediction in after


def test_without_answers_there_is_no_example() -> None:
    assert choose_example(OBJECTIVE, [], []) is None
    assert choose_example(OBJECTIVE, rows("split"), rows(None)) is None
