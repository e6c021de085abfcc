"""Threshold knobs: what they are compared with stands in the trace, and they decide by it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragc.programs import METHODS, Method
from ragc.programs import trace as gates
from ragc.programs.knobs import Knob, Value
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Search, ThresholdCheck
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget
from tests.examples import thorough

QUESTION = "What is the colour of thing 3?"
FOUND = [Passage(f"p{i}", f"Title {i}", f"The colour of thing {i} is red.") for i in range(30)]
SAID: dict[str, Any] = {
    "confidence": 40,
    "need": 40,
    "relevant": True,
    "support": "fully",
    "utility": 3,
    "subject": "colour",
    "object": "thing 3",
    "aligned": [[{"component": 1, "segment": "colour", "same": True}]],
    "sufficient": "NO",
    "action_input": ["thing 1", "thing 2", "thing 3"],
    "answer": "red",
    "sentence": "Thing 3 is red.",
    "action": "search",
}
REACHED: dict[str, Mapping[str, Value]] = {
    "source_check_threshold": {"compare_first": True},
    "crag_lower": {"crag_upper": 1.0},
}
"""What else it takes for a gate to be reached."""

GRADED = {"crag": {"grade": {"points": 40}}, "ggatrieval": {"grade": {"points": 40}}}
"""What some fields of one method say, as other methods have fields of the same names."""

CASES = [(entry, knob) for entry in METHODS for knob in entry.knobs.list_knobs() if knob.threshold]


def needed(entry: Method, knob: Knob) -> dict[str, Value]:
    """Values under which `knob` matters and its gate is reached."""
    values = dict(REACHED.get(knob.name, {}))
    condition = knob.when
    while condition:
        parent = entry.knobs.knob(condition.knob)
        values[parent.name] = condition.values[0] if condition.values else parent.default
        condition = parent.when
    return values


def run(entry: Method, values: Mapping[str, Value]) -> tuple[list[ThresholdCheck], str]:
    """The gates that one question passed through, and all else that it led to."""
    fields = json.loads(json.dumps({**SAID, **GRADED.get(entry.id, {})}))  # lists are used up
    target = ScriptedTarget(SchemaReplies(fields=fields, logprob=-0.9))
    names = {"local", "web", *entry.sources, *entry.optional_sources}
    sources = {name: ListSource([replace(p, id=f"{name} {p.id}") for p in FOUND]) for name in names}
    roles: Any = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    prediction = entry.build(Runtime(roles, sources, store=CallStore(None)), values)(question=QUESTION)
    events = [e.to_json() for e in prediction.trace if isinstance(e, Call | Search)]
    for event in events:
        del event["at"]
    return [e for e in prediction.trace if isinstance(e, ThresholdCheck)], json.dumps(events)


def test_every_number_that_is_compared_with_a_score_is_declared_a_threshold() -> None:
    assert {(entry.id, knob.name) for entry, knob in CASES} == {
        ("prefrag", "source_check_threshold"),
        ("ggatrieval", "tau"),
        ("ggatrieval", "crag_keep"),
        ("rqrag", "retrieve_threshold"),
        ("slimplm", "judge_threshold"),
        ("crag", "crag_upper"),
        ("crag", "crag_lower"),
        ("selfrag", "selfrag_threshold"),
        ("selfrag", "useful_from"),
        ("flare", "flare_theta"),
    }
    assert all(knob.kind in ("int", "float") for _, knob in CASES)


@thorough
@pytest.mark.parametrize(("entry", "knob"), CASES, ids=lambda value: getattr(value, "id", "") or value.name)
def test_a_threshold_on_either_side_of_the_recorded_score_takes_another_way(
    entry: Method, knob: Knob
) -> None:
    least, most = knob.bounds
    whole = knob.kind == "int"
    others = needed(entry, knob)
    middle = knob.check(round((least + most) / 2)) if whole else (least + most) / 2
    seen = [gate for gate in run(entry, {**others, knob.name: middle})[0] if gate.knob == knob.name]
    assert seen
    score = seen[0].score
    assert least < score < most
    below, above = (int(score), int(score) + 1) if whole else (score - 1e-4, score + 1e-4)
    passed, way = run(entry, {**others, knob.name: below})
    missed, other = run(entry, {**others, knob.name: above})
    first = [next(gate for gate in gate_events if gate.knob == knob.name) for gate_events in (passed, missed)]
    assert [(gate.score, gate.passed) for gate in first] == [(score, True), (score, False)]
    assert way != other


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_only_thresholds_are_gates(entry: Method) -> None:
    declared = {knob.name for knob in entry.knobs.list_knobs() if knob.threshold}
    assert {gate.knob for gate in run(entry, {})[0]} <= declared


def test_a_score_that_is_the_threshold_reaches_it_and_steps_that_were_added_up_are_no_more() -> None:
    assert gates.at_least("tau", 0.3, 0.1 + 0.2)
    assert not gates.above("tau", 0.3, 0.1 + 0.2)
