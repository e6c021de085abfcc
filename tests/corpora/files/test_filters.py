"""Only the rows asked for are kept, and a filter that cannot be right says so with what it saw."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.corpora.files.filters import Where, filter_questions, flat
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
    where = Where(conditions)
    assert [row["n"] for row in ROWS if where.keeps(row)] == rows
    assert where.problems() == []


def test_true_is_not_the_number_one_and_null_is_no_text() -> None:
    for value, wanted in ((1, True), (True, 1), (0, False), (None, "None")):
        assert not Where({"x": wanted}).keeps({"x": value}), (value, wanted)


def test_a_path_in_no_row_is_named_with_the_nearest() -> None:
    where = Where({"levle": "hard", "meta.yaer": 2019, "type": "yesno"})
    assert not any(where.keeps(row) for row in ROWS)
    assert where.problems() == [
        "the filter asks for `levle`, which no row has. Did you mean 'level'?",
        "the filter asks for `meta.yaer`, which no row has. Did you mean 'meta.year'?",
    ]


def test_a_filter_that_leaves_nothing_counts_the_values_it_saw() -> None:
    where = Where({"type": "list", "level": ["easy", "hardest"]})
    assert not any(where.keeps(row) for row in ROWS)
    levels = "`level` must be 'easy' or 'hardest', found 'hard' (1), 'medium' (1), 'easy' (1)"
    types = "`type` must be 'list', found 'yesno' (3), 'list' (1)"
    assert where.problems() == [f"the filter leaves none of 4 rows: {types}; {levels}"]


@pytest.mark.parametrize("wanted", [[], {}, None, [None], [["a"]]])
def test_conditions_without_a_plain_value_are_refused(wanted: Any) -> None:
    with pytest.raises(UsageError, match="'type' needs a text, a number"):
        Where({"type": wanted})


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
