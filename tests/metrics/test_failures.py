"""Questions without an answer: counted, with their reasons grouped."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.failures import MAX_REASON_CHARS, REASONS, Failures


def test_reasons_that_differ_in_what_the_reply_began_with_are_one() -> None:
    failures = Failures.among(
        ["", "Too long. It had 9 words.", "No JSON. It began x.", "", "No JSON. It began y.", "No JSON."]
    )
    assert (failures.n, failures.of) == (4, 6)
    assert failures.reasons == (("No JSON. It began x", 3), ("Too long. It had 9 words", 1))
    assert failures.text == "4 of 6 questions failed: No JSON. It began x (and 1 for other reasons)"
    assert not failures.all


def test_where_everything_failed_that_is_said_and_where_nothing_did_nothing_is() -> None:
    every = Failures.among(["no JSON"] * 4)
    assert every.all
    assert every.text == "4 of 4 questions failed: no JSON"
    for none in (Failures.among([]), Failures.among(["", ""])):
        assert (none.text, none.reason, none.all, none.share) == ("", "", False, 0)


def test_a_reason_is_one_line_that_a_terminal_can_show() -> None:
    reason = Failures.among(["bad\n\treply \x1b[31m" + "x" * 500]).reason
    assert reason.startswith("bad reply \N{REPLACEMENT CHARACTER}[31mxx")
    assert len(reason) == MAX_REASON_CHARS
    assert reason.isprintable()


@given(st.lists(st.text(max_size=8), max_size=30))
def test_the_counts_add_up_and_json_gives_all_back(reasons: list[str]) -> None:
    failures = Failures.among(reasons)
    assert (failures.n, failures.of) == (sum(map(bool, reasons)), len(reasons))
    counts = [n for _, n in failures.reasons]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) <= REASONS
    assert sum(counts) <= failures.n
    assert Failures.from_json(json.loads(json.dumps(failures.to_json()))) == failures
