"""A rehearsal sends nothing, and takes about the calls that questions take."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Value
from ragc.programs.trace import Call
from ragc.task.rehearsal import calls_about, fit_calls_about, learns, rehearse, writers_of
from ragc.testing import SchemaReplies
from tests.exports.common import build_program

QUESTION = "What is the colour of thing 3?"

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)


@pytest.mark.parametrize(
    ("id", "knobs", "calls"),
    [
        ("no_retrieval", {}, 1),
        ("no_retrieval", {"history": "rewrite"}, 2),
        ("self_eval", {}, 2),
        ("react", {"tools": "concat", "max_step": 6}, 7),
        ("self_ask", {}, 7),
        ("iter_retgen", {"rounds": 4}, 4),
        ("prefrag", {}, 8),
        ("prefrag", {"strict_budget": True, "pref_style": "prompt"}, 4),
        ("ragx", {"source_policy": "agent"}, 3),
        ("ragx", {"source_policy": "llm_all", "rerank": True}, 4),
        ("rqrag", {}, 25),
        ("rqrag", {"width": "rewrite", "max_depth": 4}, 9),
        ("rqrag", {"select": "vote"}, 90),
        ("rankgpt", {}, 10),
        ("slimplm", {}, 10),
        ("slimplm", {"use_qr": False}, 3),
        ("flare", {"rounds": 1, "sentences": 1, "finish": "text"}, 2),
        ("selfrag", {}, 41),
        ("selfrag", {"gate": "never"}, 1),
        ("crag", {"form": "binary"}, 12),
        ("crag", {"crag_upper": 1.0, "crag_lower": -1.0}, 17),
        ("ggatrieval", {}, 64),
        ("llatrieval", {}, 219),
    ],
)
def test_calls_about_finds_a_long_way_through_a_program(id: str, knobs: dict[str, Value], calls: int) -> None:
    program = build_program(method(id))
    assert calls_about(method(id), program.runtime, knobs) == calls


@every
def test_rehearse_sends_nothing_and_counts_what_one_of_its_ways_takes(entry: Method) -> None:
    program = build_program(entry)
    calls = {rehearsal.calls for rehearsal in rehearse(entry, program.runtime, {})}
    target: Any = program.runtime.target("main")
    assert not target.requests
    assert min(calls) <= program(question=QUESTION).counters["lm_calls"] <= max(calls)


def test_only_what_learns_takes_calls_for_it() -> None:
    learning = {entry.id: fit_calls_about(entry, build_program(entry).runtime, {}) for entry in METHODS}
    assert {id: calls for id, calls in learning.items() if calls} == {"slimplm": 1, "skr": 2}
    assert [entry.id for entry in METHODS if learns(entry)] == ["slimplm", "skr"]


@every
def test_writers_of_are_called_once_and_write_the_answer(entry: Method) -> None:
    for last in (False, True):
        program = build_program(entry, SchemaReplies(last=last, logprob=-3.0))
        writers = writers_of(program)
        assert writers or entry.id in ("iter_retgen", "rqrag")
        prediction = program(question=QUESTION)
        calls = [event for event in prediction.trace if isinstance(event, Call) and event.name in writers]
        assert len(calls) <= 1
        assert all(str(call.outputs["answer"]) in prediction.answer for call in calls), entry.id
