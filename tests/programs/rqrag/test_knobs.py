"""RQ-RAG's knobs: which of them matter, the values that the paper has for a data set, and demonstrations."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import optuna
import pytest

from ragc.metrics import get
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.demos.bootstrap import collect
from ragc.optimizers.candidates.demos.setting import demo_setting
from ragc.optimizers.candidates.space import ProgramSpace, SearchSpace
from ragc.optimizers.search.parameters import suggest
from ragc.programs import method
from ragc.programs.rqrag import DEPTHS, WIDTHS, RqRagKnobs
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget

RQRAG = method("rqrag")


def test_a_study_searches_the_width_wherever_it_acts() -> None:
    def widths(**fixed: Any) -> set[Any]:
        part = ProgramSpace((RqRagKnobs.knob("width"),), RqRagKnobs, fixed=fixed)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
        return {suggest(SearchSpace((part,)), study.ask()).knobs["width"] for _ in range(60)}

    assert widths(depth_for="musique", max_depth=0) == set(WIDTHS)
    assert widths(mode="search_on_demand", max_depth=0) == set(WIDTHS)
    assert widths(max_depth=0) == {WIDTHS[0]}


def test_a_data_set_of_the_paper_has_its_choice() -> None:
    chosen = {name: RqRagKnobs(select_for=name).chosen_by for name in DEPTHS}
    single, several = ("arc_challenge", "popqa", "openbookqa"), ("hotpotqa", "2wikimultihopqa", "musique")
    assert chosen == dict.fromkeys(single, "conf") | dict.fromkeys(several, "ensemble")
    assert RqRagKnobs(select_for="popqa", select="vote").chosen_by == "conf"
    assert RqRagKnobs(select="vote").chosen_by == "vote"
    assert {RqRagKnobs(mode="search_on_demand").chosen_by, RqRagKnobs(max_depth=0).chosen_by} == {"none"}


PASSAGES = [
    Passage("a", "Ed Wood (film)", "Ed Wood is a film by Tim Burton. Its star is Johnny Depp."),
    Passage("b", "Tim Burton", "Tim Burton was born in Burbank, California."),
]
TRAIN = [
    Question(f"t{n}", f"Where was the director of film number {n} born?", ("Burbank",), gold_ids=("b",))
    for n in range(8)
]


def reply(request: ChatRequest) -> dict[str, Any]:
    searched = len(re.findall(r"^\[\d+\] ", request.messages[-1].content, re.MULTILINE))
    return {"query": ("director of Ed Wood", "Tim Burton born")[min(searched, 1)], "answer": "Burbank"}


@pytest.mark.parametrize("width", [WIDTHS[0], "rewrite+disambiguate", "disambiguate"])
def test_demonstrated_queries_of_every_kind_have_trajectories(width: str) -> None:
    target = ScriptedTarget(reply)
    runtime, start = Runtime({"main": target}, {"local": ListSource(PASSAGES)}), RqRagKnobs().to_json()
    setting = demo_setting(RQRAG, runtime, start, {**start, "width": width, "ndocs": 5})
    assert (setting["width"], setting["ndocs"], setting["max_depth"]) == (width, 3, 2)
    program = RQRAG.build(runtime, setting)

    async def run() -> Any:
        scorer = Scorer.of(get("em"))
        limit = asyncio.Semaphore(1)
        return await collect(program, TRAIN, scorer, n_demos=8, filled=8, threshold=1.0, limit=limit)

    collected = asyncio.run(run()).demos
    for kind in width.split("+"):
        demos = collected[kind]
        assert 1 in {len(demo["trajectory"]) for demo in demos}  # DSPy draws one call of each question
        assert all("Passage 1: " in demo["trajectory"][0] for demo in demos if demo["trajectory"])


@pytest.mark.parametrize(
    ("width", "depth", "paths"),
    [
        ("rewrite+decompose", 1, ["", "rewrite", "decompose"]),
        ("rewrite+decompose", 2, ["", "rewrite", "rewrite decompose", "decompose", "decompose rewrite"]),
        ("decompose", 2, ["", "decompose", "decompose decompose"]),
    ],
)
def test_in_turn_a_path_goes_on_with_the_next_kind(width: str, depth: int, paths: list[str]) -> None:
    target = ScriptedTarget(reply)
    knobs = {"width": width, "max_depth": depth, "branching": "turn", "exclude_seen": True}
    program = RQRAG.build(Runtime({"main": target}, {"local": ListSource(PASSAGES)}), knobs)
    assert len(program(question="Where?").candidates) == len(paths)
    answered = [
        " ".join(re.findall(r"^\[\d+\] (\w+): ", request.messages[-1].content, re.MULTILINE))
        for request in target.requests
        if '"answer"' in request.messages[0].content
    ]
    assert sorted(answered) == sorted(paths)
