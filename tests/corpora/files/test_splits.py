"""Splits and folds are drawn the same way every time, share nothing, and take groups whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.files.splits import (
    FOLDS,
    THRESHOLD,
    check_disjoint,
    connected,
    divide,
    fold,
    gold_documents,
    near_duplicates,
    normalise,
    trigrams,
)
from ragc.corpora.files.splits import draw as draw_with_rest
from ragc.errors import DataError, UsageError
from ragc.records import Question


def ask(name: str, text: str = "", split: str = "", group: str = "") -> Question:
    return Question(name, text or f"What is {name}?", ("x",), split, group=group)


def draw(questions: Iterable[Question], sizes: dict[str, int], seed: int) -> dict[str, tuple[Question, ...]]:
    return draw_with_rest(questions, sizes, seed)[0]


def grouped(*sizes: int) -> list[Question]:
    return [
        ask(f"q{g}-{i}", group=f"g{g}" if size > 1 else "")
        for g, size in enumerate(sizes)
        for i in range(size)
    ]


def many(n: int, split: str = "", prefix: str = "q") -> list[Question]:
    return [ask(f"{prefix}{i}", split=split) for i in range(n)]


def ids(questions: Iterable[Question]) -> list[str]:
    return [q.id for q in questions]


def test_text_is_normalised_as_answers_are() -> None:
    assert normalise("  The “Café”, a\tbar? ") == normalise("cafe\u0301 bar") == "café bar"
    assert normalise("Is 2+2 = 4?") != normalise("Is 2-2 = 4?")
    assert normalise("The?") == "the?"
    assert normalise("???") == "???" != normalise("!!!")


def test_a_draw_depends_on_content_and_seed_only() -> None:
    questions = many(50)
    sizes = {"train": 10, "dev": 15, "test": 20}
    first = draw(questions, sizes, 7)
    assert first == draw(questions[::-1], sizes, 7) == draw(iter(questions), sizes, 7)
    assert list(first) == list(sizes)
    assert {n: len(q) for n, q in first.items()} == sizes
    assert first != draw(questions, sizes, 8)
    check_disjoint(first)


def test_a_larger_train_changes_neither_dev_nor_test() -> None:
    for questions in (many(60), many(60, "dev"), many(30, "train") + many(30, "dev", "d")):
        small = draw(questions, {"train": 5, "dev": 10, "test": 10}, 1)
        large = draw(questions, {"train": 20, "dev": 10, "test": 10}, 1)
        assert (small["dev"], small["test"]) == (large["dev"], large["test"])
        assert small["train"] == large["train"][:5] or not any(q.split == "train" for q in questions)


def test_a_split_the_file_does_not_name_comes_from_the_rest() -> None:
    dev_only = draw(many(30, "dev"), {"train": 10, "dev": 10, "test": 10}, 0)
    assert len({q.id for split in dev_only.values() for q in split}) == 30
    mixed = draw(many(10, "dev", "d") + many(5, "", "u") + many(9, "other", "o"), {"dev": 4, "test": 5}, 0)
    assert {q.split for q in mixed["test"]} == {""}
    split_out = draw(many(10, "train") + many(10, "test", "e"), {"train": 5, "dev": 5}, 0)
    assert {q.split for q in split_out["dev"]} == {"train"}


def test_asking_for_more_than_there_is_says_how_many_there_are() -> None:
    with pytest.raises(DataError, match="train asks for 8 questions, 3 of 10 are left for it"):
        draw(many(10), {"train": 8, "test": 7}, 0)
    with pytest.raises(DataError, match="dev asks for 8 questions, 5 are named 'dev'"):
        draw(many(5, "dev") + many(9, "", "u"), {"dev": 8}, 0)
    with pytest.raises(DataError) as caught:
        draw(many(10), {"train": 2, "dev": 20}, 0)
    assert caught.value.problems == ("dev asks for 20 questions, 10 of 10 are left for it",)
    with pytest.raises(UsageError, match="dev = -1"):
        draw(many(5), {"dev": -1}, 0)
    assert draw([], {"train": 0}, 0) == {"train": ()}


def test_named_splits_that_share_a_question_are_refused() -> None:
    shared = [ask("a", "Who is the King?", "train"), ask("b", "who is king", "dev"), *many(9, "dev")]
    with pytest.raises(
        DataError, match=r"dev and train share a question: 'b' and 'a' ask 'Who is the King\?'"
    ):
        draw(shared, {"train": 1, "dev": 1}, 0)
    with pytest.raises(DataError, match="share the group 'g'"):
        draw([ask("a", split="dev", group="g"), ask("b", split="test", group="g")], {"dev": 1, "test": 1}, 0)


def test_check_disjoint_names_shared_ids_and_texts() -> None:
    check_disjoint({"train": [ask("a", "Same?"), ask("b", "same")], "dev": [ask("c")]})
    train = [ask("a", "One?"), ask("b", "Two?"), ask("d", group="g")]
    with pytest.raises(DataError) as caught:
        check_disjoint(
            {"train": train, "dev": [ask("a", "Three?"), ask("c", "the two"), ask("e", group="g")]}
        )
    assert caught.value.problems[:2] == (
        "train and dev share the id 'a'",
        "train and dev share a question: 'b' and 'c' ask 'the two'",
    )
    assert "train and dev share the group 'g', such as 'd' and 'e'" in caught.value.problems[2]


def test_the_whole_of_a_named_split_can_be_drawn_with_its_repeats() -> None:
    dev = [ask("a", "Same?", "dev"), ask("b", "same", "dev"), ask("c", "Other?", "dev")]
    assert sorted(ids(draw(dev, {"dev": 3}, 0)["dev"])) == ["a", "b", "c"]


def test_what_is_shared_through_others_is_one_group() -> None:
    keys = {"a": ["d1", "d2"], "b": ["d2"], "c": ["d3", "d2"], "d": ["d4"], "e": [], "f": ["d9"], "g": ["d9"]}
    assert connected(keys) == {"a": "d1", "b": "d1", "c": "d1", "d": "", "e": "", "f": "d9", "g": "d9"}
    assert gold_documents(("p#3", "p#12", "q"), whole=False) == ("p", "p", "q")
    assert gold_documents(("p#3",), whole=True) == ("p#3",)


@given(st.lists(st.integers(1, 9), min_size=8, max_size=30), st.integers(0, 5))
def test_splits_never_divide_a_group(counts: list[int], seed: int) -> None:
    total = sum(counts)
    sizes = {"train": total // 5, "dev": total // 4, "test": total // 3}
    try:
        drawn = draw(grouped(*counts), sizes, seed)
    except DataError as error:
        if 'divide groups with data.fields.group = ""' not in str(error):
            raise
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
        drawn = draw(grouped(7, 5, 5, 3), {"dev": 10, "test": 10}, seed)
        assert (len(drawn["dev"]), len(drawn["test"])) == (10, 10)


def test_a_group_that_does_not_fit_is_left_out_and_counted() -> None:
    drawn, unfit = draw_with_rest(grouped(50, *[1] * 30), {"dev": 10, "test": 20}, 0)
    assert all(not question.group for questions in drawn.values() for question in questions)
    assert set(unfit.values()) == {1}
    with pytest.raises(DataError, match=r"fill 0 of them.*data\.fields\.group"):
        draw(grouped(40, 40), {"dev": 20}, 0)


def test_equal_texts_join_groups() -> None:
    same = [
        ask("a", group="g1"),
        ask("b", "Why?", group="g1"),
        ask("c", "why", group="g2"),
        ask("d", group="g2"),
    ]
    drawn = draw([*same, ask("e")], {"dev": 1, "test": 4}, 0)
    assert (ids(drawn["dev"]), set(ids(drawn["test"]))) == (["e"], set("abcd"))


@given(st.lists(st.integers(0, 12), min_size=6, max_size=59), st.booleans())
@settings(max_examples=60, deadline=None)
def test_folds_and_splits_are_whole_groups_of_all_questions(groups: list[int], taught: bool) -> None:
    every = [ask(f"q{at}", group=f"g{group}" if group else "") for at, group in enumerate(groups)]
    named = {group for group in groups if group}
    if len(named) + groups.count(0) < 4:
        return
    folds, splits = fold(every, 7, taught=taught), divide(every, 7, taught=taught)
    assert sorted(name for part in folds for name in part) == sorted(ids(every))
    assert sorted(q.id for split in splits.values() for q in split) == sorted(ids(every))
    for group in named:
        members = {q.id for q in every if q.group == f"g{group}"}
        parts = [*folds, *(set(ids(split)) for split in splits.values())]
        assert sum(bool(members & part) for part in parts) == 2
    for part in folds:
        for split in splits.values():  # without any fold there is still something to learn from and choose by
            assert any(q.id not in part for q in split)
    back = every[::-1]
    assert (fold(back, 7, taught=taught), divide(back, 7, taught=taught)) == (folds, splits)


def test_independent_questions_have_five_even_folds() -> None:
    assert [len(part) for part in fold(many(40), 1, taught=False)] == [8] * FOLDS
    assert [len(split) for split in divide(many(40), 1, taught=True).values()] == [16, 24]


@pytest.mark.parametrize(
    ("groups", "taught", "message"),
    [
        ([1] * 5, False, "5 questions are too few to compile, which needs 6; add some"),
        (
            [20],
            False,
            "the 20 questions are 1 group that must stay whole, such as those about one document",
        ),
        ([4, 4, 4], True, "12 questions are 3 groups .* needs 4 where train questions are needed"),
    ],
)
def test_what_cannot_be_divided_says_why(groups: list[int], taught: bool, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fold(grouped(*groups), 1, taught=taught)


def test_the_most_similar_respelling_is_named() -> None:
    others = [
        ask("a", "Which architect built the old lighthouse of Bergen?"),
        ask("b", "Which architects built the old lighthouse at Bergen?"),
        ask("c", "Who painted the wooden bridge of Osaka in spring?"),
    ]
    respelled = ask("x", "Wich architect built the old lighthouse of Bergen")
    assert near_duplicates([respelled], others) == {"x": "a"}
    assert near_duplicates([ask("y", "Who wrote the anthem of Quito?")], others) == {}
    assert near_duplicates([], others) == {}
    assert near_duplicates([respelled], []) == {}


def test_other_numbers_are_other_questions() -> None:
    other = ask("a", "Who won the national basketball league in 2010?")
    assert near_duplicates([ask("x", "Who won the national basketball league in 2011?")], [other]) == {}
    assert near_duplicates([ask("x", "Who wins the national basketball league in 2010?")], [other])


TEXTS = st.lists(st.text(alphabet="abcd ", min_size=1, max_size=12), max_size=12)


@given(TEXTS, TEXTS)
def test_no_pair_is_overlooked(texts: list[str], other_texts: list[str]) -> None:
    questions = [ask(str(number), text) for number, text in enumerate(texts)]
    others = [ask(str(number), text) for number, text in enumerate(other_texts)]
    every = {
        one.id
        for one in questions
        for other in others
        if len(trigrams(one.question) & trigrams(other.question))
        >= THRESHOLD * len(trigrams(one.question) | trigrams(other.question))
    }
    assert near_duplicates(questions, others).keys() == every
