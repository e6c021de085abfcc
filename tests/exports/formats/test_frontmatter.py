"""Frontmatter: what is written is read as the same values, and nothing in it reads as its end."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.formats.base import frontmatter, yaml_text
from tests.examples import examples
from tests.exports.common import texts

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts() | st.just("on"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(head=st.dictionaries(texts(), VALUES, min_size=1, max_size=3))
def test_it_is_read_as_the_same_values(head: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(head)) == head


@settings(max_examples=examples(50), deadline=None)
@given(pieces=st.lists(st.sampled_from(["-", "+", "\\", '"', "a"]), max_size=9))
def test_no_text_reads_as_its_end(pieces: list[str]) -> None:
    text = "".join(pieces)
    file = frontmatter({"x": text}, "body")
    assert file.count("---") == 2
    assert "+++" not in file
    assert yaml.safe_load(file.split("---")[1]) == {"x": text}


def test_numbers_that_a_reader_takes_for_texts_are_written_with_a_point() -> None:
    assert yaml.safe_load(yaml_text({"x": 1e-05, "y": 1e22})) == {"x": 1e-05, "y": 1e22}
