"""Programs that were compiled before fields were renamed are read with the fields of now.

The programs in `tests/compiled/older` were written by the version before, with a demonstration for each
call whose fields changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest

from ragc.compiled.base import load, present_demo
from ragc.programs.runtime import Runtime
from ragc.store.call_store import CallStore
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

OLDER = Path(__file__).with_name("older")
DEMOS: dict[str, dict[str, dict[str, Any]]] = {
    "react": {
        "step": {
            "trajectory": [
                (
                    "Thought: I need the author.\nAction: local[author of Emma]\n"
                    "Observation: Jane Austen wrote Emma."
                )
            ]
        },
        "answer": {"trajectory": ["Observation: Jane Austen wrote Emma."]},
    },
    "self_ask": {"step": {"trajectory": []}},
    "selfrag": {"need": {"need": 40}},
    "prefrag": {
        "step": {"trajectory": []},
        "answer": {"trajectory": ["Search: author of Emma\nResults:\n[1] Emma\nJane Austen wrote Emma."]},
    },
}


@pytest.mark.parametrize("name", DEMOS)
def test_an_older_program_has_its_demonstrations_in_the_fields_of_now_and_runs(name: str) -> None:
    target = ScriptedTarget(SchemaReplies(), capabilities=("schema", "logprobs", "seed"))
    sources = {source: ListSource([]) for source in ("local", "web", "kg", "dense")}
    runtime = Runtime({"main": target, "proxy": target}, sources, store=CallStore(None))
    compiled = load(OLDER / name)
    program = compiled.build(runtime)
    predictors = dict(program.named_predictors())
    for call, fields in DEMOS[name].items():
        (demo,) = predictors[call].demos
        assert {field: demo[field] for field in fields} == fields
        assert set(demo) <= set(predictors[call].signature.fields)
        assert predictors[call].signature.instructions == compiled.state.predictors[call].instructions
    program(question="Who wrote Persuasion?")
    shown = [message.content for request in target.requests for message in request.messages]
    assert any("Emma" in text for text in shown)


class OwnStep(dspy.Signature):
    """Say what is next."""

    trajectory: str = dspy.InputField()
    need: dict[str, int] = dspy.OutputField()


def test_fields_of_a_users_own_module_with_such_a_name_stay_as_they_are() -> None:
    demo = {"trajectory": "thought_0: none yet", "need": {"percent": 40}}
    assert present_demo(demo, OwnStep.fields) == demo
