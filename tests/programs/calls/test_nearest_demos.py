"""Demonstrations chosen by the question: the nearest, found without a model, the same every time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragc.compiled.base import CompiledProgram, readable
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import nearest_first
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.testing import ListSource, ScriptedTarget

ASKED = ("Which film won?", "Which song won?", "Who wrote the old song?", "How far is the moon?")
DEMOS = [{"question": text, "passages": ["p"], "answer": f"a{n}"} for n, text in enumerate(ASKED)]
RUNTIME = Runtime({"main": ScriptedTarget(lambda request: {"answer": "a"})}, {"local": ListSource([])})


def build_program(nearest: int, target: ScriptedTarget | None = None, **knobs: Any) -> RagProgram:
    target = target or ScriptedTarget(lambda request: {"answer": "a"})
    sources = {"local": ListSource([Passage("p", "", "text")])}
    program = method("vanilla").build(Runtime({"main": target}, sources, store=CallStore(None)), knobs)
    call = dict(program.named_predictors())["answer"]
    call.demos, call.nearest = DEMOS, nearest
    return program


def read_demo_answers(target: ScriptedTarget) -> list[str]:
    """The answers of the demonstrations in the last request, in order."""
    replies = [m.content for m in target.requests[-1].messages if m.role == "assistant"]
    return [json.loads(text)["answer"] for text in replies]


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Who sang the song?", ["a2", "a1"]),
        ("Is the moon far?", ["a0", "a3"]),
        ("Old song?", ["a1", "a2"]),
        ("Nothing alike", ["a1", "a0"]),
    ],
)
def test_a_call_shows_the_demonstrations_nearest_to_its_question_the_nearest_last(
    question: str, answers: list[str]
) -> None:
    target = ScriptedTarget(lambda request: {"answer": "a"})
    build_program(2, target)(question=question)
    assert read_demo_answers(target) == answers


def test_no_more_are_shown_than_the_program_allows_and_none_costs_a_call() -> None:
    target = ScriptedTarget(lambda request: {"answer": "a"})
    build_program(3, target, icl_n=1)(question="Which song won?")
    assert read_demo_answers(target) == ["a1"]
    assert len(target.requests) == 1


def test_a_call_made_before_is_replayed_and_another_choice_is_not() -> None:
    target = ScriptedTarget(lambda request: {"answer": "a"})
    program = build_program(2, target)
    program(question="Which song won?")
    program(question="Which song won?")
    assert len(target.requests) == 1
    dict(program.named_predictors())["answer"].nearest = 1
    program(question="Which song won?")
    assert len(target.requests) == 2
    assert len(read_demo_answers(target)) == 1


def test_the_compiled_program_carries_the_pool_and_chooses_at_run_time() -> None:
    compiled = CompiledProgram.of(build_program(1), provenance={}, recipe="", run={})
    state = json.loads(json.dumps(compiled.state.model_dump(mode="json")))
    assert state["predictors"]["answer"]["nearest"] == 1
    assert len(state["predictors"]["answer"]["demos"]) == 4
    again = compiled.build(RUNTIME)
    assert dict(again.named_predictors())["answer"].nearest == 1
    assert "4 demonstrations" in readable(dict(again.named_predictors())["answer"])
    plain = CompiledProgram.of(build_program(0), provenance={}, recipe="", run={})
    assert "nearest" not in plain.state.model_dump(mode="json")["predictors"]["answer"]


def test_dspy_saves_and_loads_it() -> None:
    state, other = build_program(2).dump_state(), build_program(0)
    other.load_state(json.loads(json.dumps(state)))
    assert dict(other.named_predictors())["answer"].nearest == 2
    other.load_state(build_program(0).dump_state())
    assert dict(other.named_predictors())["answer"].nearest == 0


def test_a_call_without_a_question_is_compared_by_all_its_inputs() -> None:
    demos = [{"text": "red fish", "statement": "x"}, {"text": "x", "statement": "blue bird"}]
    assert nearest_first(demos, {"text": "a bird", "statement": "y"}) == (1, 0)
