"""Where the tokens of a value stand in a reply that was mended."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs.calls.field_logprobs import field_tokens
from ragc.programs.calls.spelled import value_tokens
from ragc.targets.base import TokenLogprob


def tokens_of(*parts: str) -> list[TokenLogprob]:
    """Tokens with the log probabilities -1, -2, and so on."""
    return [TokenLogprob(part, -float(number)) for number, part in enumerate(parts, 1)]


@pytest.mark.parametrize(
    ("value", "parts", "numbers"),
    [
        ("Paris", ["Par", "is"], [1, 2]),
        ("Paris", ["I say ", "Paris", ". Answer: ", "Paris", ", and not Lyon, ", "Paris"], [4]),
        ("Paris", ["Paris", " or ", "Paris"], [3]),
        ("A", ["An ", "Answer: ", "(A", ")"], [3]),
        ("no answer", ["no ", "answer"], [1, 2]),
        ("5", ['{"answer": ', "5", ', "confidence": ', "55", "}"], [2]),
        ("5", ["55"], []),
        ("yes", ['{"answer": ', "tr", "ue", "}"], [2, 3]),
        ("no", ["False"], [1]),
        ("Paris, Lyon", ['["', "Paris", '", "', "Lyon", '"]'], [2, 3, 4]),
        ("a b", ["{'answer': '", "a\\n", "b", "'}"], [2, 3]),
        ("New York", ["▁New", "▁York"], [1, 2]),
        ("東京", ["東", "京"], [1, 2]),
        ("Rome", ["Paris"], []),
        ("?", ["?"], []),
        (" ", ["Paris"], []),
        ("Paris", [], []),
    ],
)
def test_a_value_is_found_wherever_it_stands(value: str, parts: list[str], numbers: list[int]) -> None:
    spelled = value_tokens(tokens_of(*parts), "answer", value)
    assert [-token.logprob for token in spelled] == numbers


@pytest.mark.parametrize("value", ["Paris", "B"])
def test_a_value_in_its_frame_is_found_as_before(value: str) -> None:
    tokens: Any = tokens_of('{"answer": "(', value, ')", "other": "', value, '"}')
    assert value_tokens(tokens, "answer", value) == field_tokens(tokens, "answer", value)
