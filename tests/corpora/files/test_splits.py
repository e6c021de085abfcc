"""Splits are drawn the same way every time and share nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.files.splits import check_disjoint, draw, normalise
from ragc.errors import DataError, UsageError
from ragc.records import Question


def ask(name: str, text: str = "", split: str = "") -> Question:
    return Question(name, text or f"What is {name}?", ("x",), split)


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


def test_named_splits_are_kept_apart() -> None:
    questions = many(10, "train", "t") + many(10, "dev", "d") + many(10, "test", "e")
    splits = draw(questions, {"train": 10, "dev": 4, "test": 4}, 0)
    assert {(name, q.split) for name, split in splits.items() for q in split} == {
        ("train", "train"), ("dev", "dev"), ("test", "test")
    }  # fmt: skip


def test_a_split_the_file_does_not_name_comes_from_the_rest() -> None:
    dev_only = draw(many(30, "dev"), {"train": 10, "dev": 10, "test": 10}, 0)
    assert len({q.id for split in dev_only.values() for q in split}) == 30
    mixed = draw(many(10, "dev", "d") + many(5, "", "u") + many(9, "other", "o"), {"dev": 4, "test": 5}, 0)
    assert {q.split for q in mixed["test"]} == {""}
    held_out = draw(many(10, "train") + many(10, "test", "e"), {"train": 5, "dev": 5}, 0)
    assert {q.split for q in held_out["dev"]} == {"train"}


def test_asking_for_more_than_there_is_says_how_many_there_are() -> None:
    with pytest.raises(DataError, match="train asks for 8 questions, 3 of 10 are left for it"):
        draw(many(10), {"train": 8, "test": 7}, 0)
    with pytest.raises(DataError, match="dev asks for 8 questions, 5 are named 'dev'"):
        draw(many(5, "dev") + many(9, "", "u"), {"dev": 8}, 0)
    with pytest.raises(UsageError, match="dev = -1"):
        draw(many(5), {"dev": -1}, 0)
    assert draw([], {"train": 0}, 0) == {"train": ()}


def test_named_splits_that_share_a_question_are_refused() -> None:
    shared = [ask("a", "Who is the King?", "train"), ask("b", "who is king", "dev"), *many(9, "dev")]
    with pytest.raises(
        DataError, match=r"dev and train share a question: 'b' and 'a' ask 'Who is the King\?'"
    ):
        draw(shared, {"train": 1, "dev": 1}, 0)
    with pytest.raises(DataError, match="the id 'a' belongs to two"):
        draw([ask("a"), ask("a", "Other?")], {"dev": 1}, 0)


def test_check_disjoint_names_shared_ids_and_texts() -> None:
    check_disjoint({"train": [ask("a", "Same?"), ask("b", "same")], "dev": [ask("c")]})
    with pytest.raises(DataError) as caught:
        check_disjoint(
            {"train": [ask("a", "One?"), ask("b", "Two?")], "dev": [ask("a", "Three?"), ask("c", "the two")]}
        )
    assert caught.value.problems == (
        "train and dev share the id 'a'",
        "train and dev share a question: 'b' and 'c' ask 'the two'",
    )


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["", "dev", "odd"])), min_size=6, max_size=30),
    st.integers(0, 5),
)
def test_repeated_texts_never_straddle_two_splits(rows: list[tuple[int, str]], seed: int) -> None:
    questions = [ask(f"q{n}", f"Text {text}?", split) for n, (text, split) in enumerate(rows)]
    try:
        splits = draw(questions, {"train": 2, "dev": 2, "test": 2}, seed)
    except DataError:
        return
    check_disjoint(splits)
    assert [len(split) for split in splits.values()] == [2, 2, 2]
    assert len({q.id for split in splits.values() for q in split}) == 6


def test_the_whole_of_a_named_split_can_be_drawn_with_its_repeats() -> None:
    dev = [ask("a", "Same?", "dev"), ask("b", "same", "dev"), ask("c", "Other?", "dev")]
    assert sorted(ids(draw(dev, {"dev": 3}, 0)["dev"])) == ["a", "b", "c"]
