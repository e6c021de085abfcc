"""Only the rows asked for are kept, and a filter that cannot be right says so with what it saw."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.corpora.files.records import filter_questions, flat, meeting
from ragc.errors import DataError, UsageError
from ragc.records import Question

ROWS: list[dict[str, Any]] = [
    {"n": 0, "type": "yesno", "level": "hard", "answerable": True, "meta": {"year": 2019}, "tags": ["a"]},
    {"n": 1, "type": "list", "level": "medium", "answerable": False, "meta": {"year": 2020}, "tags": []},
    {"n": 2, "type": "yesno", "level": "easy", "answerable": True, "meta": {}, "tags": ["b", "a"]},
    {"n": 3, "type": "yesno", "level": None, "answerable": "True", "meta": {"year": "2019"}},
]


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        ({}, [0, 1, 2, 3]),
        ({"type": "yesno"}, [0, 2, 3]),
        ({"type": "yesno", "level": ["hard", "medium"]}, [0]),
        ({"answerable": True}, [0, 2, 3]),
        ({"answerable": False}, [1]),
        ({"meta.year": 2019}, [0, 3]),
        ({"meta.year": 2019.0}, [0, 3]),
        ({"tags": "a"}, [0, 2]),
        ({"tags.0": "a"}, [0]),
        ({"n": [0, "1"]}, [0, 1]),
    ],
)
def test_every_condition_needs_one_of_its_values(conditions: dict[str, Any], rows: list[int]) -> None:
    met = meeting(ROWS, conditions, "rows")
    assert [row["n"] for row, is_met in zip(ROWS, met, strict=True) if is_met] == rows


def test_true_is_not_the_number_one_and_null_is_no_text() -> None:
    for value, wanted in ((1, True), (True, 1), (0, False), ([], "None")):
        assert meeting([{"x": value}, {"x": wanted}], {"x": wanted}, "rows") == [False, True]


TYPES = "`type` must be 'list', found 'yesno' (3), 'list' (1)"
LEVELS = "`level` must be 'easy' or 'hardest', found 'hard' (1), 'medium' (1), 'easy' (1)"


@pytest.mark.parametrize(
    ("conditions", "problems"),
    [
        (
            {"levle": "hard", "type": "yesno", "meta.yaer": 1},
            (
                "the filter asks for `levle`, which no row has. Did you mean 'level'?",
                "the filter asks for `meta.yaer`, which no row has. Did you mean 'meta'?",
            ),
        ),
        (
            {"type": "list", "level": ["easy", "hardest"]},
            (f"the filter leaves none of 4 rows: {TYPES}; {LEVELS}",),
        ),
    ],
)
def test_a_filter_that_cannot_be_right_says_what_is_there(
    conditions: dict[str, Any], problems: tuple[str, ...]
) -> None:
    with pytest.raises(DataError) as caught:
        meeting(ROWS, conditions, "rows")
    assert caught.value.problems == problems


@pytest.mark.parametrize("wanted", [[], {}, None, [None], [["a"]]])
def test_conditions_without_a_plain_value_are_refused(wanted: Any) -> None:
    with pytest.raises(UsageError, match="'type' needs a text, a number"):
        meeting(ROWS, {"type": wanted}, "rows")


def test_questions_are_kept_by_extra_and_split() -> None:
    questions = [
        Question("1", "?", ("a",), split="dev", extra={"type": "bridge"}),
        Question("2", "?", ("a",), split="train", extra={"type": "bridge"}),
        Question("3", "?", ("a",), split="dev", extra={"type": "comparison"}),
    ]
    found = filter_questions(questions, {"type": "bridge", "split": "dev"}, "hotpotqa")
    assert [question.id for question in found] == ["1"]
    with pytest.raises(DataError, match=r"^hotpotqa: the filter asks for `tpye`.*'type'"):
        filter_questions(questions, {"tpye": "bridge"}, "hotpotqa")


def test_tables_of_toml_become_dotted_paths() -> None:
    conditions = {"meta": {"level": "hard", "of": {"year": [1, 2]}}, "a.b": True}
    assert flat(conditions) == {"meta.level": "hard", "meta.of.year": [1, 2], "a.b": True}
