"""Questions without an answer: counted, with their reasons grouped."""

from __future__ import annotations

from ragc.metrics.failures import MAX_REASON_CHARS, Failures


def test_reasons_that_differ_in_what_the_reply_began_with_are_one() -> None:
    failures = Failures.among(
        ["", "Too long. It had 9 words.", "No JSON. It began x.", "", "No JSON. It began y.", "No JSON."]
    )
    assert (failures.n, failures.of) == (4, 6)
    assert failures.reasons == (("No JSON. It began x", 3), ("Too long. It had 9 words", 1))
    assert failures.text == "4 of 6 questions failed: No JSON. It began x (and 1 for other reasons)"
    assert not failures.all


def test_a_reason_is_one_line_that_a_terminal_can_show() -> None:
    reason = Failures.among(["bad\n\treply \x1b[31m" + "x" * 500]).reason
    assert reason.startswith("bad reply \N{REPLACEMENT CHARACTER}[31mxx")
    assert len(reason) == MAX_REASON_CHARS
    assert reason.isprintable()
