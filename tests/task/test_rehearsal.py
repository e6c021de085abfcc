"""A rehearsal sends nothing, and takes about the calls that questions take."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Value
from ragc.task.rehearsal import calls_about, rehearse
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
