"""RQ-RAG's tree and its knobs, through the public API on scripted targets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragc.programs.rqrag import DEPTHS, WIDTHS, RqRagKnobs
from ragc.programs.trace import Call, Search
from ragc.signatures.grade import NeedRetrieval
from ragc.signatures.query import (
    AnswerPath,
    ChooseAction,
    DecomposeQuery,
    DisambiguateQuery,
    RewriteQuery,
    TrajectoryJudge,
)
from ragc.testing import ScriptedTarget
from tests.programs.rqrag.common import (
    BOTH,
    build_program,
    classify_path,
    fresh,
    last_answer,
    select_requests,
)
from tests.support.requests import inputs_of


@pytest.mark.parametrize(
    ("depth", "width", "queries", "answers"),
    [
        (2, WIDTHS[0], 12, 13),
        (4, WIDTHS[0], 120, 121),
        (2, "decompose", 2, 3),
        (3, WIDTHS[1], 14, 15),
        (0, WIDTHS[0], 0, 1),
    ],
)
def test_the_tree_makes_exactly_the_calls_of_its_depth_and_width(
    depth: int, width: str, queries: int, answers: int
) -> None:
    target = ScriptedTarget(fresh)
    prediction = build_program(target, max_depth=depth, width=width)(question="Capital?")
    assert len(target.requests) == queries + answers
    assert build_program(ScriptedTarget([]), max_depth=depth, width=width).most_calls() == queries + answers
    assert len(select_requests(target, RewriteQuery, DecomposeQuery, DisambiguateQuery)) == queries
    assert len(select_requests(target, AnswerPath)) == answers == len(prediction.candidates)
    assert prediction.counters["searches"] == queries
    assert prediction.counters["lm_calls"] == queries + answers
    assert prediction.counters["trajectories"] == answers


@pytest.mark.parametrize(
    ("knobs", "steps", "peak"),
    [
        ({"max_depth": 2}, 3, 12),
        ({"max_depth": 3}, 4, 36),
        ({"max_depth": 1, "select": "vote"}, 2, 18),
        ({"max_depth": 1, "select": "judge"}, 3, 4),
        ({"mode": "search_on_demand", "search_limit": 2}, 5, 1),
    ],
)
def test_branches_run_at_the_same_time(knobs: dict[str, Any], steps: int, peak: int) -> None:
    target = ScriptedTarget(lambda r: {**BOTH, "reason": "so", "score": 5, "action": "rewrite"}, hold=True)
    build_program(target, **knobs)(question="Capital?")
    assert (target.steps, target.peak) == (steps, peak)


def test_a_path_shows_its_searches_in_order_and_the_trace_keeps_the_order_of_the_tree() -> None:
    target = ScriptedTarget(lambda r: {"query": f"where  is\nit {fresh(r)['query']}", "answer": "a"})
    prediction = build_program(target, max_depth=2, width="rewrite+decompose", ndocs=1)(question="Capital?")
    steps = [
        [part.split(":")[0] for part in inputs_of(r).split("[")[1:]]
        for r in select_requests(target, AnswerPath)
    ]  # e.g. "1] rewrite"
    assert sorted(steps) == sorted(
        [[f"{i}] {kind}" for i, kind in enumerate(kinds, 1)] for kinds in (
            (), ("rewrite",), ("decompose",), ("rewrite", "rewrite"), ("rewrite", "decompose"),
            ("decompose", "rewrite"), ("decompose", "decompose"),
        )]
    )  # fmt: skip
    assert "Trajectory:\nnone" in inputs_of(select_requests(target, AnswerPath)[0])
    first = next(r for r in select_requests(target, AnswerPath) if classify_path(r) == "rewrite")
    expected = "[1] rewrite: where is it q0\nPassage 1: Title 0\ntext 0"
    assert inputs_of(first) == f"Question: Capital?\nTrajectory:\n{expected}"
    events = [e.name if isinstance(e, Call) else type(e).__name__ for e in prediction.trace]
    branch = ["answer", "rewrite", "Search", "answer", "decompose", "Search", "answer"]
    assert events == ["answer", "rewrite", "Search", *branch, "decompose", "Search", *branch, "Note"]
    queries = [e.query for e in prediction.trace if isinstance(e, Search)]
    assert queries == [f"where is it q{n}" for n in (0, 1, 1, 0, 1, 1)]


def outputs(target: ScriptedTarget) -> list[str]:
    schema = select_requests(target, AnswerPath)[0].schema
    return list(schema["properties"]) if schema else []


def system(target: ScriptedTarget) -> str:
    """The instructions of the last call, which answers a question."""
    return target.requests[-1].messages[0].content


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"max_depth": 1}, lambda t: len(t.requests) == 3),
        ({"width": "disambiguate"}, lambda t: len(select_requests(t, DisambiguateQuery)) == 2),
        ({"ndocs": 5}, lambda t: "text 4" in last_answer(t)),
        ({"query_temperature": 0.3},
         lambda t: select_requests(t, DecomposeQuery)[0].sampling.temperature == .3),
        ({"temperature": 0.5}, lambda t: select_requests(t, AnswerPath)[0].sampling.temperature == 0.5),
        ({"exclude_seen": True}, lambda t: "shown" not in last_answer(t) and "text 5" in last_answer(t)),
        ({"cot": True}, lambda t: "reasoning" in outputs(t)),
        ({"depth_for": "musique"}, lambda t: len(t.requests) == 4 + 5),
        ({"retrieve_threshold": 0.5}, lambda t: len(select_requests(t, NeedRetrieval)) == 1),
        ({"answer_format": "choice"}, lambda t: "letter of the right option" in system(t)),
        ({"select": "judge"}, lambda t: len(select_requests(t, TrajectoryJudge)) == 3),
        ({"select": "confidence"}, lambda t: "confidence" in outputs(t)),
        ({"select": "vote", "n_conf_samples": 2}, lambda t: len(select_requests(t, AnswerPath)) == 9),
        ({"mode": "search_on_demand", "search_limit": 1},
         lambda t: len(select_requests(t, ChooseAction)) == 1),
        ({"layout": "json"}, lambda t: "[[ ## trajectory ## ]]" in inputs_of(t.requests[0])),
    ],
)  # fmt: skip
def test_every_knob_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    reply = {
        "reasoning": "so", "reason": "so", "action": "decompose", "confidence": 5, "score": 5,
        "need": 90
    }  # fmt: skip
    plain, other = (ScriptedTarget(lambda r: {**fresh(r), **reply}) for _ in range(2))
    build_program(plain, width="decompose")(question="Capital?")
    build_program(other, **{"width": "decompose", **knobs})(question="Capital?")
    assert look(other)
    assert not look(plain)
    assert {r.sampling.temperature for r in select_requests(plain, DecomposeQuery)} == {1.0}
    assert {r.sampling.temperature for r in select_requests(plain, AnswerPath)} == {0.0}
    assert [last_answer(plain).count(text) for text in ("text 0", "Title 0")] == [1, 2]


def test_state_saves_and_loads_with_only_the_calls_that_are_used(tmp_path: Any) -> None:
    program = build_program(ScriptedTarget([]), width="decompose")
    assert [name for name, _ in program.named_predictors()] == ["decompose", "answer"]
    program.answer.demos = [{"question": "q", "trajectory": ["rewrite: x"], "answer": "y"}]
    program.save(tmp_path / "state.json")
    twin = build_program(ScriptedTarget([]), width="decompose")
    twin.load(tmp_path / "state.json")
    assert twin.answer.fingerprint == program.answer.fingerprint
    assert json.loads((tmp_path / "state.json").read_text())


def test_a_data_set_of_the_paper_has_its_depth() -> None:
    depths = {name: RqRagKnobs(depth_for=name, max_depth=0).depth for name in DEPTHS}
    assert depths == {
        "arc_challenge": 2, "popqa": 2, "openbookqa": 2, "hotpotqa": 2, "2wikimultihopqa": 4, "musique": 4
    }  # fmt: skip
    assert RqRagKnobs(max_depth=3).depth == 3
