"""haystack: over random programs, demonstrations and inputs Haystack renders what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exports.common import CALM
from tests.exports.drawn import agree
from tests.exports.test_haystack import rendered

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]


@settings(max_examples=200, suppress_health_check=CALM)
@given(data=st.data())
def test_every_program_is_rendered_as_it_is_sent(data: Any) -> None:
    agree("haystack", rendered, data)
