"""RQ-RAG's tree and its knobs, through the public API on scripted targets."""

from __future__ import annotations

import pytest

from ragc.programs.rqrag import DEPTHS, WIDTHS, RqRagKnobs
from ragc.programs.trace import Call, Search
from ragc.signatures.query import (
    AnswerPath,
    DecomposeQuery,
    DisambiguateQuery,
    RewriteQuery,
)
from ragc.testing import ScriptedTarget
from tests.programs.rqrag.common import (
    build_program,
    classify_path,
    fresh,
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
    assert len(select_requests(target, RewriteQuery, DecomposeQuery, DisambiguateQuery)) == queries
    assert len(select_requests(target, AnswerPath)) == answers == len(prediction.candidates)
    assert prediction.counters["searches"] == queries
    assert prediction.counters["lm_calls"] == queries + answers
    assert prediction.counters["trajectories"] == answers


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


def test_a_data_set_of_the_paper_has_its_depth() -> None:
    depths = {name: RqRagKnobs(depth_for=name, max_depth=0).depth for name in DEPTHS}
    assert depths == {
        "arc_challenge": 2, "popqa": 2, "openbookqa": 2, "hotpotqa": 2, "2wikimultihopqa": 4, "musique": 4
    }  # fmt: skip
    assert RqRagKnobs(max_depth=3).depth == 3
