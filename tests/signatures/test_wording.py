"""Two texts of one signature: both stay with its fields until one of them is left."""

from __future__ import annotations

import pytest

from ragc.programs import method
from ragc.programs.knobs import WORDINGS
from ragc.programs.runtime import Runtime
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget


@pytest.mark.parametrize("wording", WORDINGS)
def test_dspy_saves_and_loads_the_text_in_force(wording: str) -> None:
    target = ScriptedTarget(SchemaReplies())
    ground = Runtime({"main": target}, {"local": ListSource([])})
    program, other = (method("vanilla").build(ground, {"wording": wording}) for _ in range(2))
    program.answer.signature = program.answer.signature.with_instructions("Say so.")
    other.load_state(program.dump_state())
    inputs = {"question": "Q?", "passages": ["a"]}
    assert other.answer.messages(**inputs) == program.answer.messages(**inputs)
