"""haystack, langchain, llamaindex, mlflow: over random programs, demonstrations and inputs, what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exports.common import CALM
from tests.exports.drawn import agree
from tests.exports.formats.readers import QUIET, READERS, format

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800), *QUIET]
__all__ = ["format"]  # the fixture


@settings(max_examples=200, suppress_health_check=CALM)
@given(data=st.data())
def test_every_program_is_rendered_as_it_is_sent(format: str, data: Any) -> None:
    agree(format, READERS[format], data)
