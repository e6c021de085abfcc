"""A program on the real SmolLM2: a long question is cut until its prompt fits."""

from __future__ import annotations

import pytest

import ragc
from tests.integration.fetched import fetch_default_weights

pytestmark = pytest.mark.integration


def test_a_question_of_many_pages_is_cut_until_the_chat_template_fits_too() -> None:
    fetch_default_weights()
    target = ragc.target("embedded", context=256)
    program = ragc.program("vanilla", main=target, local=lambda query, k: ["Cranes lift."], wording="brief")
    counters = program(question="Where does the crane stand? " * 60).counters
    assert counters["trimmed"]
    assert counters["lm_calls"] == 1
