"""Types that several signatures share: trajectories, per cent, the kinds of a step."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import dspy
import pytest

from ragc.programs.calls.parsing import parse
from ragc.signatures import align, answer, claims, draft, grade, judge, query, route, select, step
from ragc.signatures.step import AgentStep, Finish, GradedFinish, Search, agent_step
from ragc.signatures.wording import Trajectory

MODULES = (align, answer, claims, draft, grade, judge, query, route, select, step)
GRADED = '"explanation": "it says so", "grade": "CORRECT", "improvement": ""'


def signatures_of(module: ModuleType) -> list[Any]:
    return [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, dspy.Signature) and kind.__module__ == module.__name__
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_was_done_so_far_has_one_name_and_type(module: ModuleType) -> None:
    for signature in signatures_of(module):
        fields = signature.input_fields
        assert "steps" not in fields
        if "trajectory" in fields:
            assert fields["trajectory"].annotation == Trajectory


@pytest.mark.parametrize(
    ("signature", "field"),
    [
        (grade.NeedRetrieval, "need"),
        (grade.comparison("confidence"), "confidence"),
        (query.with_confidence(query.AnswerPath), "confidence"),
        (query.TrajectoryJudge, "score"),
    ],
)
def test_confidences_are_whole_per_cent(signature: Any, field: str) -> None:
    info = signature.output_fields[field]
    bounds = {type(bound).__name__: bound for bound in info.metadata}
    assert info.annotation is int
    assert (bounds["Ge"].ge, bounds["Le"].le) == (0, 100)


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
