"""Exports as dotprompt, rendered by its Python and npm packages: every method under every layout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.programs import METHODS, Method
from ragc.programs.knobs import LAYOUTS, WORDINGS
from tests.exports.common import CALM, build_program
from tests.exports.formats.handmade import with_any_demos, with_calm_demos
from tests.exports.formats.test_dotprompt import Render, check_all, render

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
__all__ = ["render"]  # the fixture: both consumers


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=3, suppress_health_check=CALM, deadline=None)
@given(data=st.data())
def test_its_messages_are_those_sent(entry: Method, layout: str, render: Render, data: Any) -> None:
    program = with_calm_demos(
        build_program(entry, layout=layout, wording=data.draw(st.sampled_from(WORDINGS))), data
    )
    assert check_all(render, program, data) == len(list(program.named_predictors()))


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
@settings(max_examples=3, suppress_health_check=CALM, deadline=None)
@given(layout=st.sampled_from(LAYOUTS), data=st.data())
def test_any_demonstration_is_said_or_refused(entry: Method, layout: str, render: Render, data: Any) -> None:
    check_all(
        render,
        with_any_demos(
            build_program(entry, layout=layout, wording=data.draw(st.sampled_from(WORDINGS))), data
        ),
        data,
    )
