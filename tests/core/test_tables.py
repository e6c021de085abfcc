"""Tables that users write: what each type of field takes, and errors with their keys, all at once."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from ragc.core.tables import (
    ONCE,
    Above,
    Choice,
    Flag,
    Json,
    Share,
    Table,
    Words,
    by,
    dotted,
    read,
    repair,
)
from ragc.errors import UnknownName, UsageError


def _check_fruit(name: str) -> None:
    if name not in ("apple", "pear"):
        raise UnknownName("fruit", name, ("apple", "pear"))


class Inner(Table):
    share: Annotated[Share, Field(lt=1)] = 0.5
    size: Annotated[int, Field(strict=True, ge=1, le=9)] = 3


class Strict(Table):
    key: Words


class Shop(Table):
    name: Words = Field(examples=["corner"])
    open: Flag = True
    price: Above = 1.0
    colour: Annotated[str, Choice(("red", "green"))] = "red"
    fruits: Annotated[tuple[Annotated[Words, by(_check_fruit)], ...], ONCE, Field(min_length=1)] = ("apple",)
    extra: Json = Field(default_factory=dict)
    inner: Inner = Field(default_factory=Inner)
    many: dict[str, Inner] = Field(default_factory=dict)
    strict: Strict | None = None


def problems(**values: object) -> list[str]:
    return [str(problem) for problem in read(Shop, {"name": "x", **values})[1]]


def test_a_table_without_problems_is_read() -> None:
    shop, wrong = read(Shop, {"name": "x", "price": 3, "many": {"a": {"size": 4}}})
    assert (shop.price, shop.many["a"].size, wrong) == (3.0, 4, [])
    assert shop.explicit.keys() == {"name", "price", "many"}
    with pytest.raises(ValidationError):
        shop.name = "y"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"open": 1}, "open must be true or false, found 1"),
        ({"price": 0}, "price must be above 0, found 0"),
        ({"price": True}, "price must be a number, found True"),
        ({"price": float("nan")}, "price must be a finite number, found nan"),
        ({"name": " "}, "name must be a text that is not empty, found ' '"),
        ({"colour": "gren"}, "colour must be 'red' or 'green', found 'gren'. Did you mean 'green'?"),
        ({"colour": 3}, "colour must be 'red' or 'green', found 3"),
        ({"fruits": []}, "fruits must be a list that is not empty, found []"),
        ({"fruits": ["apple", 3]}, "fruits.1 must be a text, found 3"),
        ({"fruits": ["apple", "apple"]}, "fruits lists 'apple' twice"),
        (
            {"fruits": ["aple"]},
            "fruits.0: No fruit is named 'aple'. Did you mean 'apple'? Known: apple, pear",
        ),
        ({"extra": 3}, "extra must be a table, found 3"),
        ({"inner": 3}, "inner must be a table, found 3"),
        ({"inner": {"size": True}}, "inner.size must be a whole number, found True"),
        ({"inner": {"size": 10}}, "inner.size must be at most 9, found 10"),
        ({"inner": {"share": 1}}, "inner.share must be below 1, found 1"),
        (
            {"inner": {"siz": 1}},
            "inner.siz: unknown key in [inner]. Did you mean 'size'? Known: share, size",
        ),
        ({"many": {"a": {"size": "3"}}}, "many.a.size must be a whole number, found '3'"),
        ({"strict": {}}, "strict.key is missing"),
    ],
)
def test_each_wrong_value_has_one_sentence(values: dict[str, object], problem: str) -> None:
    assert problems(**values) == [problem]


def test_what_json_cannot_hold_is_refused() -> None:
    wrong = {"day": dt.date(2026, 1, 1), "much": float("inf"), "fine": [1, {"a": "b"}]}
    assert [text.partition(" must be")[0] for text in problems(extra=wrong)] == ["extra.day", "extra.much"]


def test_all_problems_are_reported_and_the_rest_is_read() -> None:
    values = {
        "nme": 3,
        "open": "yes",
        "fruits": ["kiwi", "pear"],
        "many": {"a": {"size": 0, "note": 1}, "b": 3},
        "price": 2,
    }
    shop, wrong = read(Shop, values)
    assert {dotted(problem.keys) for problem in wrong} == {
        "name", "open", "fruits.0", "many.a.size", "many.a.note", "many.b", "nme",
    }  # fmt: skip
    assert 'name is missing; add, for example, name = "corner"' in map(str, wrong)
    assert (shop.name, shop.open, shop.fruits, shop.price) == ("corner", True, ("apple",), 2.0)
    assert shop.many == {"a": Inner()}


def test_the_keys_of_a_table_inside_a_file_are_said_whole() -> None:
    (problem,) = read(Inner, {"size": 0}, ("search", "inner"))[1]
    assert (problem.keys, str(problem)) == (
        ("search", "inner", "size"),
        "search.inner.size must be at least 1, found 0",
    )
    with pytest.raises(UsageError, match=r"search\.key is missing"):
        read(Strict, {}, ("search",))


def test_a_caller_gets_all_problems_in_one_sentence() -> None:
    assert Inner.of({"size": 9}).size == 9
    with pytest.raises(UsageError, match=r"Sizes: share must be at most 1, found 2; size must be at most 9"):
        Inner.of({"size": 10, "share": 2}, "Sizes: ")


def test_a_key_of_a_provider_is_not_repeated() -> None:
    (said,) = problems(open="sk-proj-0123456789abcdef0123")
    assert "0123456789" not in said


def test_a_list_is_removed_as_a_whole() -> None:
    values: dict[str, Any] = {"a": {"b": [1, {"c": 2}], "f": 4}, "d": 3}
    repair(values, ("a", "b", 0))
    repair(values, ("a", "b", 1, "c"))
    repair(values, ("d", "e"))
    repair(values, ("no", "such"))
    assert values == {"a": {"f": 4}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5
)


@given(VALUES)
def test_whatever_is_written_every_problem_has_its_key(value: object) -> None:
    for name in Shop.model_fields:
        for problem in read(Shop, {"name": "x", name: value})[1]:
            assert problem.keys[0] == name
            assert "Input should" not in str(problem)
