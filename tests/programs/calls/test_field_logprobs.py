"""Which tokens of a reply spell the value of one output field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ragc.programs.calls.field_logprobs import field_tokens, mean_probability
from ragc.targets.base import TokenLogprob


def make_tokens(*tokens: tuple[str, float]) -> list[TokenLogprob]:
    return [TokenLogprob(*token) for token in tokens]


@pytest.mark.parametrize(
    ("value", "tokens", "expected"),
    [
        ("Paris", [('{"answer": "', -1), ("Par", -2), ("is", -3), ('"}', -4)], (-2, -3)),
        ("answer", [("<answer>", -1), ("answer", -2), ("</answer>", -3)], (-2,)),
        ("x y", [("[[ ## answer ## ]]\n", -1), ("x", -2), (" y", -3), ("\n", -4)], (-2, -3)),
        ('a "b"', [('{"reasoning":"a","answer":', -1), ('"a \\', -2), ('"b\\""', -3), ("}", -4)], (-2, -3)),
        ("é", [('{"answer":"', -1), ("\\u00e9", -2), ('"}', -3)], (-2,)),
        ("5", [('{"answer": "', -1), ("5", -2), ('", "confidence": 5', -3), ("5}", -4)], (-2,)),
        ("A", [('{"answer": "', -1), ('A"', -2), ("}", -3)], (-2,)),
        ("a b", [('{"answer":', -1), ('"aĠ', -2), ('b"}', -3)], (-2, -3)),
        ("a b", [('{"answer":Ġ"', -1), ("▁a", -2), ("▁b", -3), ('"}', -4)], (-2, -3)),
        ("Zürich", [('{"answer": "Z', -1), ("\ufffd", -2), ("\ufffdrich", -3)], (-1, -2, -3)),
        ("Zürich", [('{"answer":"', -1), ("ZÃ", -2), ("¼rich", -3), ('"}', -4)], (-2, -3)),
        ("B", [('{"answer": "', -1), ("(", -2), ("b", -3), (")", -4), ('"}', -5)], (-3,)),
        ("B", [("[[ ## answer ## ]]\n", -1), ("B", -2), (".", -3), ("\n\n[[ ## completed ## ]]", -4)], (-2,)),
        ("yes", [("<answer>", -1), (" Yes", -2), (".</answer>", -3)], (-2,)),
        ("B", [('{"answer": "', -1), ("B and C", -2), ('"}', -3)], ()),
        ("Zurich", [('{"answer":"', -1), ("ZÃ", -2), ("¼rich", -3), ('"}', -4)], ()),
        ("Paris", [('{"answer": "Rome"}', -1)], ()),
        ("Paris", [('{"other": "Paris"}', -1)], ()),
        ("Paris", [("I think Paris", -1)], ()),
        ("", [('{"answer": ""}', -1)], ()),
        (" ", [('{"answer": " "}', -1)], ()),
        ("Paris", [], ()),
    ],
)
def test_only_the_tokens_that_spell_the_value_count(value: str, tokens: Any, expected: Any) -> None:
    assert tuple(token.logprob for token in field_tokens(make_tokens(*tokens), "answer", value)) == expected


def test_a_text_beyond_ascii_keeps_all_its_characters() -> None:
    tokens = make_tokens(('{"answer": "', -1), ("\ufffd", -2), ("\ufffd", -3), ('"}', -4))
    assert field_tokens(tokens, "answer", " 東京都 ") == tuple(make_tokens(("東", -2), ("京都", -3)))


def test_the_mean_probability_is_the_geometric_mean_of_the_tokens() -> None:
    assert mean_probability(make_tokens(("a", -1.0), ("b", -3.0))) == pytest.approx(math.exp(-2.0))
    assert mean_probability(()) == 0.0
