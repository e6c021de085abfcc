"""Questions of one group are drawn together, or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.files.splits import (
    check_disjoint,
    connected,
    draw,
    draw_groups,
    gold_documents,
    group_values,
)
from ragc.errors import DataError
from ragc.records import Question


def ask(name: str, group: str = "", split: str = "", text: str = "") -> Question:
    return Question(name, text or f"What is {name}?", ("x",), split, group=group)


def grouped(*sizes: int) -> list[Question]:
    return [
        ask(f"q{g}-{i}", f"g{g}" if size > 1 else "") for g, size in enumerate(sizes) for i in range(size)
    ]


def test_what_is_shared_through_others_is_one_group() -> None:
    keys = {"a": ["d1", "d2"], "b": ["d2"], "c": ["d3", "d2"], "d": ["d4"], "e": [], "f": ["d9"], "g": ["d9"]}
    labels = connected(keys)
    assert labels == {"a": "d1", "b": "d1", "c": "d1", "d": "", "e": "", "f": "d9", "g": "d9"}
    assert connected(dict(reversed(keys.items()))) == labels


def test_chunks_without_a_corpus_are_of_one_document() -> None:
    assert gold_documents(("p#3", "p#12", "q"), whole=False) == ("p", "p", "q")
    assert gold_documents(("p#3",), whole=True) == ("p#3",)


def test_a_column_may_hold_a_text_a_number_or_a_list() -> None:
    row = {"doc": "d1", "n": 7, "all": ["a", None, "b"], "none": None, "meta": {"page": "p"}}
    assert group_values(row, "doc") == ("d1",)
    assert group_values(row, "n") == ("7",)
    assert group_values(row, "all") == ("a", "b")
    assert group_values(row, "none") == ()
    assert group_values(row, "meta.page") == ("p",)
    assert group_values(row, "absent") is None
    assert group_values({"ids": "a; b"}, "ids", separator=";") == ("a", "b")


def test_groups_of_one_are_drawn_as_before() -> None:
    plain = [ask(f"q{i}") for i in range(60)]
    sizes = {"train": 10, "dev": 20, "test": 25}
    named = [replace(question, group=f"g{question.id}") for question in plain]
    drawn = draw(named, sizes, 3)
    assert {k: [q.id for q in v] for k, v in drawn.items()} == {
        k: [q.id for q in v] for k, v in draw(plain, sizes, 3).items()
    }


@given(st.lists(st.integers(1, 9), min_size=8, max_size=30), st.integers(0, 5))
def test_splits_never_divide_a_group(counts: list[int], seed: int) -> None:
    total = sum(counts)
    sizes = {"train": total // 5, "dev": total // 4, "test": total // 3}
    refused, drawn = "", dict[str, tuple[Question, ...]]()
    try:
        drawn, _ = draw_groups(grouped(*counts), sizes, seed)
    except DataError as error:
        refused = str(error)
    if refused:
        assert "groups of questions that stay together" in refused
        assert 'data.fields.group = ""' in refused
        return
    check_disjoint(drawn)
    whole = Counter(question.group for question in grouped(*counts))
    for name, questions in drawn.items():
        assert 0.8 * sizes[name] <= len(questions) <= sizes[name]
        for group, n in Counter(q.group for q in questions).items():
            assert not group or n == whole[group]
    assert drawn == draw(grouped(*counts)[::-1], sizes, seed)


def test_sizes_are_met_where_groups_allow() -> None:
    for seed in range(20):
        drawn, _ = draw_groups(grouped(7, 5, 5, 3), {"dev": 10, "test": 10}, seed)
        assert (len(drawn["dev"]), len(drawn["test"])) == (10, 10)


def test_a_group_that_does_not_fit_is_left_out_and_counted() -> None:
    drawn, unfit = draw_groups(grouped(50, *[1] * 30), {"dev": 10, "test": 20}, 0)
    assert all(not question.group for questions in drawn.values() for question in questions)
    assert set(unfit.values()) <= {1}
    assert unfit


def test_too_few_whole_groups_are_refused_with_the_way_out() -> None:
    with pytest.raises(DataError, match=r'fill 0 of them.*data\.fields\.group = ""'):
        draw(grouped(40, 40), {"dev": 20}, 0)
    with pytest.raises(DataError, match="dev asks for 90 questions, 80 of 80 are left"):
        draw(grouped(40, 40), {"dev": 90}, 0)


def test_named_splits_that_divide_a_group_are_refused() -> None:
    with pytest.raises(DataError, match="share the group 'g'"):
        draw([ask("a", "g", "dev"), ask("b", "g", "test")], {"dev": 1, "test": 1}, 0)
    with pytest.raises(DataError, match="train and dev share the group 'g', such as 'a' and 'b'"):
        check_disjoint({"train": [ask("a", "g")], "dev": [ask("b", "g")]})


def test_equal_texts_join_groups() -> None:
    same = [ask("a", "g1"), ask("b", "g1", text="Why?"), ask("c", "g2", text="why"), ask("d", "g2"), ask("e")]
    drawn = draw(same, {"dev": 1, "test": 4}, 0)
    assert [q.id for q in drawn["dev"]] == ["e"]
    assert {q.id for q in drawn["test"]} == {"a", "b", "c", "d"}
