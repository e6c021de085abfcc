"""Cost metrics read counters, and an absent counter is not a free question."""

from __future__ import annotations

import pytest

from ragc.errors import UsageError
from ragc.metrics import Outcome, get


def test_a_cost_can_be_asked_for_one_role_or_source() -> None:
    outcome = Outcome("x", counters={"tokens": 9, "tokens@proxy": 4, "searches": 2, "searches@web": 2})
    assert get("tokens@proxy").score(outcome) == 4
    assert get("tokens@judge").score(outcome) == 0
    assert get("searches@web").score(outcome) == 2
    assert get("lm_calls@main").score(outcome) is None
    assert not get("tokens@proxy").higher_is_better
    with pytest.raises(UsageError, match="tokens@proxy"):
        get("tokens@role").score(outcome)
