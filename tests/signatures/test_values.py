"""Types that several signatures share: trajectories, per cent, the kinds of a step."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs.calls.parsing import parse
from ragc.signatures.step import AgentStep, Finish, GradedFinish, Search, agent_step

GRADED = '"explanation": "it says so", "grade": "CORRECT", "improvement": ""'


@pytest.mark.parametrize(
    ("signature", "step_text", "kind"),
    [
        (AgentStep, '{"action": "search", "action_input": "Emma"}', Search),
        (AgentStep, f'{{"action": "finish", "answer": "Austen", {GRADED}}}', GradedFinish),
        (
            agent_step(("local", "web"), graded=False),
            '{"action": "web", "action_input": "Emma"}',
            Search,
        ),
        (
            agent_step(("local",), graded=False, answer_format="yesno"),
            '{"action": "finish", "answer": "yes"}',
            Finish,
        ),
    ],
)
def test_a_step_is_of_a_kind_that_can_be_imported(signature: Any, step_text: str, kind: type) -> None:
    reading = parse(signature, f'{{"thought": "so", "step": {step_text}}}', layout="json")
    assert type(reading.outputs["step"]).__mro__[1] is kind
