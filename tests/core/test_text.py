"""Texts of others: what no file or tokenizer takes, and errors on one line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.core.text import escape_surrogates, first_line, repair_surrogates

any_text = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no such model.\nmore"), "no such model"),
        (ValueError("\n  second  \nthird"), "second  "),
        (ValueError(""), "ValueError"),
        (ValueError("x" * 500), "x" * 200),
    ],
)
def test_an_error_is_one_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_a_line_may_be_whole() -> None:
    assert first_line(ValueError("x" * 500 + ".\ny"), None) == "x" * 500


@given(any_text)
def test_halves_of_surrogate_pairs_are_written_so_that_utf_8_holds_them(text: str) -> None:
    repair_surrogates(text).encode("utf-8")
    escaped = escape_surrogates(json.dumps(text, ensure_ascii=False))
    escaped.encode("utf-8")
    again = json.loads(escaped)
    assert again.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
