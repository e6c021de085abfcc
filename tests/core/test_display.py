"""Sums of money and scores for people."""

from __future__ import annotations

import pytest

from ragc.core.display import decimals, dollars, figure, interval, signed


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0.00"),
        (0.00122, "$0.00122"),
        (1.5e-7, "$0.00000015"),
        (0.05, "$0.05"),
        (0.1234, "$0.123"),
        (0.9999, "$1.00"),
        (12.345, "$12.35"),
        (-0.003, "-$0.003"),
        (1234567.0, "$1,234,567.00"),
    ],
)
def test_a_sum_of_money_never_looks_like_nothing(amount: float, shown: str) -> None:
    assert dollars(amount) == shown


def test_scores_have_three_decimals_and_dollars_significant_digits() -> None:
    assert figure("em", 0.25) == "0.250"
    assert interval("usd", 0.00012, 0.0001, 0.00015) == "$0.00012 [$0.0001, $0.00015]"
    assert (signed("usd", -0.0002), signed("em", 0.1)) == ("-$0.0002", "+0.100")
    assert (decimals(0.0001), decimals(-0.00012), decimals(0.25), decimals(0.0)) == (
        "0.0001",
        "-0.00012",
        "0.250",
        "0.000",
    )
