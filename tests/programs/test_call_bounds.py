"""No question takes more LM calls than its program says, and some take as many."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.programs.runtime import Runtime
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.examples import THOROUGH
from tests.exports.common import Fresh
from tests.support.knob_values import settings

QUESTION = "What is the colour of thing 3?"
LONG = " ".join(f"It was made of text in 19{i:02}." for i in range(40))

FEW = {"ggatrieval": {"candidates": 6}, "llatrieval": {"candidates": 6}}
"""Fewer passages where each takes a call of its own: the bound is the same formula."""

WORDING = {"cot", "answer_format", "temperature", "top_p", "layout", "query_pos", "noise_pos", "noise_n"}
"""Knobs that change what a prompt says, not which calls there are; tried in CI."""

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)


UNSURE = -3.0
FILLINGS = {
    "plain": SchemaReplies(logprob=UNSURE),
    "last": SchemaReplies(last=True, logprob=UNSURE),
    "full": SchemaReplies(full=True, logprob=UNSURE),
    "last and full": SchemaReplies(last=True, full=True, logprob=UNSURE),
    "no answer": SchemaReplies(fields={"answer": ""}, logprob=UNSURE),
    "empty": SchemaReplies(text="", logprob=UNSURE),
}


def build_program(
    entry: Method,
    knobs: Mapping[str, Value],
    reply: Callable[[ChatRequest], Reply],
    *,
    source: Any = None,
    context_tokens: int = 100_000,
) -> RagProgram:
    """`entry` on a target that says `reply`, with the sources that its method may use."""
    names = (*entry.sources, *entry.optional_sources)
    target = ScriptedTarget(reply, context_tokens=context_tokens)
    roles: Any = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    sources = dict.fromkeys(names, source or Fresh())
    return entry.build(Runtime(roles, sources, store=CallStore(None)), dict(knobs))


def spent(program: RagProgram) -> int:
    """The calls that one question takes, repairs not counted."""
    counted = program(question=QUESTION).counters
    return int(counted["lm_calls"] - counted["repairs"])


@every
@pytest.mark.parametrize("kind", FILLINGS if THOROUGH else ("plain", "last and full"))
def test_no_question_takes_more_calls_than_the_bound(entry: Method, kind: str) -> None:
    ran = 0
    for knobs in settings(entry.knobs, most=7 if THOROUGH else 4):
        if not THOROUGH and knobs and set(knobs) <= WORDING:
            continue
        try:
            program = build_program(entry, {**FEW.get(entry.id, {}), **knobs}, FILLINGS[kind])
        except UsageError:
            continue
        calls, most = spent(program), program.most_calls()
        assert 1 <= calls <= most, f"{knobs} takes {calls} calls, bound {most}"
        ran += 1
    assert ran


@every
def test_the_bound_holds_where_only_one_passage_fits(entry: Method) -> None:
    for kind in ("plain", "last", "full"):
        program = build_program(entry, {}, FILLINGS[kind], source=Fresh("word " * 800), context_tokens=1700)
        assert 1 <= spent(program) <= program.most_calls()


@pytest.mark.parametrize(
    ("id", "knobs", "kind", "calls"),
    [
        ("no_retrieval", {}, "plain", 1),
        ("skr", {}, "plain", 1),
        ("self_eval", {}, "plain", 2),
        ("react", {}, "plain", 4),
        ("react", {"tools": "concat", "max_step": 6}, "plain", 7),
        ("self_ask", {}, "plain", 7),
        ("self_ask", {"rounds": 1}, "plain", 3),
        ("iter_retgen", {}, "plain", 3),
        ("iter_retgen", {"rounds": 4}, "plain", 4),
        ("rqrag", {}, "plain", 25),
        ("rqrag", {"max_depth": 0}, "plain", 1),
        ("rqrag", {"width": "rewrite", "max_depth": 4}, "plain", 9),
        ("rqrag", {"select": "vote"}, "plain", 90),
        ("rqrag", {"select": "judge"}, "plain", 38),
        ("rqrag", {"mode": "search_on_demand", "select": "vote"}, "plain", 7),
        ("rankgpt", {}, "plain", 10),
        ("rankgpt", {"rank_pool": 20, "window": 40}, "plain", 2),
        ("slimplm", {}, "last and full", 10),
        ("slimplm", {"use_qj": False}, "full", 9),
        ("slimplm", {"use_qr": False}, "last", 3),
        ("slimplm", {"use_qf": False}, "last", 5),
        ("flare", {"uncertainty": "spans", "rounds": 1, "sentences": 1}, "full", 4),
        ("flare", {"rounds": 1, "sentences": 1, "finish": "text"}, "plain", 2),
        ("selfrag", {}, "last", 41),
        ("selfrag", {"w_rel": 0.0}, "last", 31),
        ("selfrag", {"gate": "always", "w_sup": 0.0, "w_use": 0.0}, "empty", 21),
        ("selfrag", {"gate": "never"}, "plain", 1),
        ("selfrag", {"form": "graph"}, "plain", 39),
        ("crag", {"form": "binary"}, "last", 12),
        ("crag", {"crag_upper": 1.0, "crag_lower": -1.0}, "plain", 17),
    ],
)
def test_a_question_can_take_as_many_calls(id: str, knobs: dict[str, Value], kind: str, calls: int) -> None:
    program = build_program(method(id), knobs, FILLINGS[kind])
    assert (spent(program), program.most_calls()) == (calls, calls)


PREFRAG = {
    "max_supplements": (0, 1, 2),
    "strict_budget": (False, True),
    "reflect_mode": ("joint", "separate"),
    "compare_first": (False, True),
    "pref_style": ("module", "prompt"),
}


@pytest.mark.parametrize("chosen", list(itertools.product(*PREFRAG.values())), ids=str)
def test_prefrag_can_take_as_many_calls_as_its_bound(chosen: tuple[Value, ...]) -> None:
    counts, most = [], 0
    for bad in range(3):
        tool = "search" if "module" in chosen else "search_local"
        grading = {"explanation": "", "grade": "INCORRECT", "improvement": ""}
        wrong: dict[str, Any] = {"action": "finish", "answer": "wrong", **grading}
        searching = [{"action": tool, "action_input": f"query {number}"} for number in range(20)]
        program = build_program(
            method("prefrag"),
            dict(zip(PREFRAG, chosen, strict=True)),
            SchemaReplies(fields={"step": [wrong] * bad + searching, "answer": "", "grade": "INCORRECT"}),
        )
        counts.append(spent(program))
        most = program.most_calls()
    assert max(counts) == most


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("scope", ["each", "best"])
def test_ggatrieval_can_take_as_many_calls_as_its_bound(verify: bool, scope: str) -> None:
    knobs: dict[str, Value] = {"verify": verify, "scqu_scope": scope}
    nothing = SchemaReplies(last=True, text="")
    program = build_program(
        method("ggatrieval"), knobs, nothing, source=Fresh("word " * 2000), context_tokens=3500
    )
    chosen, rounds, candidates = 5, 4, 10
    later = chosen + candidates + candidates + verify + (chosen if scope == "each" else 1)
    assert spent(program) == program.most_calls() == 2 + candidates + candidates + (rounds - 1) * later


def test_llatrieval_can_take_as_many_calls_as_its_bound() -> None:
    reply = SchemaReplies(last=True, fields={"ids": [[]]})
    knobs: dict[str, Value] = {"doc_condense": False, "candidates": 5, "rounds": 2}
    program = build_program(
        method("llatrieval"), knobs, reply, source=Fresh("word " * 2000), context_tokens=3500
    )
    assert spent(program) == program.most_calls() == 1 + 5 + (5 + 5) + 2


def test_crag_can_take_as_many_calls_as_its_bound() -> None:
    knobs: dict[str, Value] = {"strips": "three_sentences", "crag_upper": 1.0, "crag_lower": -1.0}
    program = build_program(method("crag"), knobs, FILLINGS["plain"], source=Fresh(LONG))
    assert spent(program) == program.most_calls() == 10 + 60 + (1 + 60) + 1
