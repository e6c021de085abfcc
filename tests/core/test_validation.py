"""Tables that users write: what each type of field takes, and errors with their keys, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError
from ragc.core.validation import (
    Choice,
    JsonTable,
    Kinds,
    Model,
    Names,
    Number,
    Options,
    Switch,
    Text,
    Whole,
    dotted,
    shown,
    validate,
)

from ragc.core.plugins import Registry
from ragc.errors import UnknownName, UsageError


def _check_fruit(name: str) -> None:
    if name not in ("apple", "pear"):
        raise UnknownName("fruit", name, ("apple", "pear"))


class Inner(Options):
    share: Annotated[float, Number(low=0, below=1)] = 0.5
    size: Annotated[int, Whole(1, 9)] = 3


class Shared(Model):
    note: Annotated[str, Text()] = ""
    kind: str = ""


class Carriers(Registry[Any]):
    """The kinds of carriers."""

    def loaded(self, name: str) -> Any:
        return {"basket": SimpleNamespace(options=Inner), "bag": SimpleNamespace(options=Options)}.get(name)


CARRIERS = Carriers("tests.carriers", "kind of carrier", type, {"basket": "", "bag": ""})


class Shop(Model):
    name: Annotated[str, Text()] = Field(examples=["corner"])
    open: Annotated[bool, Switch()] = True
    price: Annotated[float, Number(above=0)] = 1.0
    colour: Annotated[str, Choice("colour", ("red", "green"))] = "red"
    fruits: Annotated[tuple[str, ...], Names(check=_check_fruit)] = ("apple",)
    extra: Annotated[Mapping[str, Any], JsonTable()] = Field(default_factory=dict)
    carriers: Mapping[str, Annotated[Shared, Kinds(CARRIERS, Shared)]] = Field(default_factory=dict)


def problems(**values: object) -> list[str]:
    return [str(problem) for problem in validate(Shop, {"name": "x", **values})[1]]


def test_a_table_without_problems_is_read() -> None:
    shop, wrong = validate(Shop, {"name": "x", "price": 3, "carriers": {"a": {"kind": "bag"}}})
    assert (shop.price, shop.carriers["a"].kind, wrong) == (3.0, "bag", [])
    with pytest.raises(ValidationError):
        shop.name = "y"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"open": 1}, "open must be true or false, found 1"),
        ({"price": 0}, "price must be a number above 0, found 0"),
        ({"price": True}, "price must be a number above 0, found True"),
        ({"price": float("nan")}, "price must be a number above 0, found nan"),
        ({"price": 1e300}, "price must be a number above 0 and below 1e+15, found 1e+300"),
        ({"price": 10**400}, f"price must be a number above 0, found 1{'0' * 199}…"),
        ({"name": " "}, "name must be a text that is not empty, found ' '"),
        ({"colour": "gren"}, "No colour is named 'gren'. Did you mean 'green'? Known: red, green."),
        ({"colour": 3}, "colour must be a text that is not empty, found 3"),
        ({"fruits": []}, "fruits must be a list of texts, found []"),
        ({"fruits": ["apple", 3]}, "fruits must be a list of texts, found ['apple', 3]"),
        ({"fruits": ["apple", "apple"]}, "fruits lists 'apple' twice"),
        ({"fruits": ["aple"]}, "No fruit is named 'aple'. Did you mean 'apple'? Known: apple, pear."),
        ({"extra": 3}, "extra must be a table, found 3"),
        ({"carriers": 3}, "carriers must be a table, found 3"),
        ({"carriers": {"a": 3}}, "carriers.a must be a table, found 3"),
        ({"carriers": {"a": {}}}, "carriers.a.kind is missing. Known: basket, bag."),
        (
            {"carriers": {"a": {"kind": "bog"}}},
            "No kind of carrier is named 'bog'. Did you mean 'bag'? Known: basket, bag.",
        ),
        (
            {"carriers": {"a": {"kind": "basket", "options": {"share": 1}}}},
            "carriers.a.options.share: share must be a number from 0 to below 1, found 1",
        ),
    ],
)
def test_each_wrong_value_has_one_sentence(values: dict[str, object], problem: str) -> None:
    assert problems(**values) == [problem]


def test_all_problems_are_reported_and_the_rest_is_read() -> None:
    values = {
        "pric": 3,
        "open": "yes",
        "fruits": ["kiwi", "pear"],
        "carriers": {"a": {"kind": "box", "nte": 1}},
    }
    shop, wrong = validate(Shop, values)
    assert {dotted(problem.keys) for problem in wrong} == {
        "name", "open", "fruits.0", "carriers.a.kind", "carriers.a.nte", "pric",
    }  # fmt: skip
    assert (shop.name, shop.open, shop.fruits, shop.carriers) == ("corner", True, ("kiwi", "pear"), {})


def test_options_raise_the_error_itself() -> None:
    assert Inner.of({"size": 9}).size == 9
    with pytest.raises(UsageError, match="size must be an integer between 1 and 9, found 10"):
        Inner.of({"size": 10})
    with pytest.raises(UsageError, match=r"share must be .*\. size must be"):
        Inner.of({"size": 10, "share": 2})


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
)
def test_whatever_is_written_every_problem_has_its_key(value: object) -> None:
    for name in Shop.model_fields:
        for problem in validate(Shop, {"name": "x", name: value})[1]:
            assert problem.keys[0] == name
            assert "Input should" not in str(problem)


def test_long_values_are_cut() -> None:
    assert shown("x" * 999) == "'" + "x" * 199 + "…"
    assert shown([1]) == "[1]"
