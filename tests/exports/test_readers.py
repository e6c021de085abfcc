"""haystack, langchain, llamaindex, mlflow: their own readers give the messages that are sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.programs.knobs import LAYOUTS
from tests.examples import examples
from tests.exports.common import CALM
from tests.exports.drawn import agree, agree_typed, stable
from tests.exports.readers import QUIET, READERS, format

pytestmark = QUIET
__all__ = ["format"]  # the fixture


@pytest.mark.parametrize("id", ["vanilla", "rqrag", "react", "slimplm", "ggatrieval"])
@settings(max_examples=examples(3), suppress_health_check=CALM)
@given(data=st.data())
def test_its_messages_are_those_sent(format: str, id: str, data: Any) -> None:
    agree(format, READERS[format], data, (id,))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(3), suppress_health_check=CALM)
@given(data=st.data())
def test_inputs_of_every_type(format: str, layout: str, data: Any) -> None:
    agree_typed(format, READERS[format], data, layout)


@pytest.mark.parametrize("id", list(READERS))
def test_the_same_program_gives_the_same_bytes(id: str) -> None:
    stable(id)
