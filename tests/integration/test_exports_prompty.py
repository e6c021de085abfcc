"""Exports as Prompty files, loaded by Prompty: every method under every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import METHODS, Method
from ragc.programs.knobs import LAYOUTS, WORDINGS
from tests.exports.common import CALM, build_program, capture_messages, inputs_for
from tests.exports.formats.handmade import with_any_demos
from tests.exports.formats.prompty_runs import check

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
EVERY = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)
FEW = settings(max_examples=3, suppress_health_check=CALM, deadline=None)
"""With about two prompts a method, 4 layouts and 3 examples each, some 480 inputs a test."""


@EVERY
@LAYOUT
@FEW
@given(data=st.data())
def test_a_file_gives_the_messages_that_are_sent(
    entry: Method, layout: str, tmp_path: Path, data: Any
) -> None:
    program = with_any_demos(
        build_program(entry, layout=layout, wording=data.draw(st.sampled_from(WORDINGS))), data
    )
    out = derive_export(program)
    files = format_of("prompty").files(out)
    for prompt in out:
        inputs = data.draw(inputs_for(prompt))
        check(
            tmp_path, files[f"{prompt.name}.prompty"], inputs, capture_messages(program, prompt.name, inputs)
        )
