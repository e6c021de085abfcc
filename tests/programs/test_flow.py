"""The graph of every method holds all that its runs do, and names only what is there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest

from ragc.exports.derive import derive_export
from ragc.programs import METHODS, Method, method
from ragc.programs.flow import END, SEARCH, START, graph_of
from ragc.programs.trace import Call, Event, Gate, Note
from ragc.testing import ListSource, SchemaReplies, settings
from tests.examples import THOROUGH
from tests.exports.common import Fresh, build_program, built

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)

UNSURE = -3.0
FILLINGS = (
    SchemaReplies(logprob=UNSURE),
    SchemaReplies(last=True, full=True, logprob=UNSURE),
    SchemaReplies(text="", logprob=UNSURE),
)

Placed = tuple[tuple[int, ...], str]
Entered = tuple[frozenset[str], str]
"""A node, and those that it may follow. Branches that started at once have numbers in a row, and so have
those of two starts without a call between them; so a node may follow what came before its branch or what
ended a branch before it.
"""


def read_places(events: Sequence[Event]) -> list[Placed]:
    """The place and node of every call and search."""
    return [
        (event.at, event.name if isinstance(event, Call) else f"{SEARCH}{event.source}")
        for event in events
        if not isinstance(event, Note | Gate)
    ]


def walk(
    steps: Sequence[Placed], came: frozenset[str], depth: int = 0
) -> tuple[set[Entered], frozenset[str]]:
    """Every node that is entered on the way, and the last ones."""
    entries: set[Entered] = set()
    ended: frozenset[str] = frozenset()
    for _, group in groupby(steps, key=lambda step: step[0][depth]):
        inside = list(group)
        if len(inside[0][0]) == depth + 1:
            entries.add((ended or came, inside[0][1]))
            came, ended = frozenset({inside[0][1]}), frozenset()
        else:
            more, last = walk(inside, came | ended, depth + 1)
            entries |= more
            ended |= last
    return entries, ended or came


def find_missing(entry: Method, knobs: dict[str, Any], reply: Any, source: Any = None) -> set[Entered]:
    """The nodes of one run that no step of its graph leads to from what came before."""
    program = (
        built(entry, knobs, reply) if source is None else build_program(entry, reply, source=source, **knobs)
    )
    if program is None:
        return set()
    graph = graph_of(entry.id, entry.flow, dict(program.named_predictors()), program.knobs.to_json())
    edges = {(step.source, step.target) for step in graph.steps}
    entries, last = walk(
        read_places(program(question="What is the colour of thing 3?").trace), frozenset({START})
    )
    return {
        (came, node)
        for came, node in {*entries, (last, END)}
        if not any((one, node) in edges for one in came)
    }


@every
def test_all_that_runs_do_is_in_the_graph(entry: Method) -> None:
    shaping = {*entry.demo_shaping_knobs, *entry.demo_knobs, "rounds", "actions", "first", "verify"}
    for number, knobs in enumerate(settings(entry.knobs, most=40 if THOROUGH else 8)):
        if number and not shaping & knobs.keys():
            continue
        reply = FILLINGS[number % len(FILLINGS)]
        assert find_missing(entry, knobs, reply) == set(), knobs


@every
@pytest.mark.parametrize("reply", FILLINGS, ids=["plain", "full", "empty"])
def test_so_it_is_under_the_defaults_whatever_is_said_and_found(entry: Method, reply: SchemaReplies) -> None:
    for source in (Fresh(), ListSource([])):
        assert find_missing(entry, {}, reply, source) == set()


@every
def test_steps_name_prompts_knobs_and_sources_that_exist(entry: Method) -> None:
    seen: set[str] = set()
    for knobs in settings(entry.knobs):
        if program := built(entry, knobs):
            seen |= {name for name, _ in program.named_predictors()}
    steps = entry.flow
    named = {node for step in steps for node in (step.source, step.target)}
    assert {n for n in named if not n.startswith(SEARCH)} == seen | {START, END}
    sources = {node.removeprefix(SEARCH) for node in named if node.startswith(SEARCH)}
    assert sources <= {*entry.sources, *entry.optional_sources}
    assert {knob for step in steps for knob in step.knobs} <= {k.name for k in entry.knobs.list_knobs()}


@every
def test_every_prompt_can_be_reached_and_leads_to_the_end(entry: Method) -> None:
    program = build_program(entry)
    graph = graph_of(entry.id, entry.flow, dict(program.named_predictors()), program.knobs.to_json())
    assert reach(START, {(s.source, s.target) for s in graph.steps}) >= {*graph.predictors, END}
    assert reach(END, {(s.target, s.source) for s in graph.steps}) >= {*graph.predictors, START}


def reach(start: str, edges: set[tuple[str, str]]) -> set[str]:
    nodes, new = {start}, {start}
    while new:
        new = {b for a, b in edges if a in new} - nodes
        nodes |= new
    return nodes


def test_every_method_has_a_table_and_no_other() -> None:
    assert all(entry.flow for entry in METHODS)


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_single_is_told_by_the_calls_of_a_question(entry: Method) -> None:
    program = build_program(entry)
    graph = derive_export(program).graph
    prediction = program(question="What is it?")
    assert graph.single == (len(graph.predictors) == 1 and prediction.counters["lm_calls"] == 1)


def test_a_graph_has_the_values_of_the_knobs_it_names() -> None:
    entry = method("crag")
    program = build_program(entry, crag_upper=0.5)
    graph = graph_of(
        "crag", method("crag").flow, dict(program.named_predictors()), program.knobs.to_json()
    ).to_json()
    assert graph["knobs"]["crag_upper"] == 0.5
    assert [step["to"] for step in graph["steps"] if step["from"] == "query"] == ["search web"]


def test_a_method_without_a_table_has_its_prompts_without_an_order() -> None:
    graph = graph_of("own", (), ["b", "a"], {})
    assert graph.predictors == ("b", "a")
    assert not graph.single
