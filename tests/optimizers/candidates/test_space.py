"""The search space over several programs, targets and instructions: what Optuna is asked and told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.optimizers.candidates.space import Candidate, ProgramSpace, SearchSpace, search_space
from ragc.optimizers.search.parameters import suggest, to_parameters
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.recipe.load import parse
from ragc.recipe.values import DEMO_KINDS
from ragc.testing import ListSource, ScriptedTarget
from tests.support.recipes import recipe_toml


def part(name: str, knobs: tuple[str, ...], program: str = "", **more: Any) -> ProgramSpace:
    kind = method(name).knobs
    space = ProgramSpace(
        tuple(knob for knob in kind.list_knobs() if knob.name in knobs), kind, program=program
    )
    return replace(space, **more)


WIDE = SearchSpace(
    (
        part("vanilla", ("top_k", "cot"), "vanilla", demos=2, demo_sets=3, instructions={"answer": 3}),
        part("cot", (), "cot", instructions={"answer": 1}),
        part("slimplm", ("use_qf", "refs_max"), "slimplm"),
    ),
    {"main": ("main", "small")},
)


SHOWING = SearchSpace(
    (part("self_eval", (), demos=3, demo_sets=4, demo_kinds=DEMO_KINDS, predictors=("answer", "gate")),)
)
"""Demonstrations of every kind, shared by the predictors or of each alone."""


@pytest.mark.parametrize("space", [WIDE, SHOWING], ids=["wide", "showing"])
@given(seed=st.integers(0, 10_000))
def test_what_was_suggested_is_suggested_again_when_it_is_enqueued(space: SearchSpace, seed: int) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    first = suggest(space, study.ask())
    study.enqueue_trial(to_parameters(space, first))
    assert suggest(space, study.ask()) == first
    again = Candidate.of(json.loads(json.dumps(first.to_json())))
    assert (again, again.mark) == (first, first.mark)
    assert first.demo_kind != "nearest" or first.demo_set == 0
    assert first.demos or first.demo_kind == "filled"


def test_the_beginning_tries_each_program_each_player_and_each_instruction() -> None:
    first = WIDE.screening(99)
    assert [c.program for c in first[:2]] == ["cot", "slimplm"]
    assert any(c.targets == {"main": "small"} for c in first)
    assert any(c.instructions == {"answer": 1} for c in first)
    assert len({c.mark for c in first}) == len(first)
    assert WIDE.baseline().mark not in {c.mark for c in first}
    assert WIDE.screening(3) == first[:3]


JUDGED = recipe_toml(
    "slimplm",
    search={"knobs": ["judge_by"], "programs": ["flare"], "trials": 4},
    data={"train": 4, "dev": 4},
    targets=["main", "proxy"],
    metrics=["f1"],
)


@pytest.mark.parametrize(
    ("able", "more", "options"),
    [
        (True, "", ("text", "confidence", "logprobs")),
        (False, "", ("text", "confidence")),
        (False, 'ranges.judge_by = ["text", "logprobs"]', ("text", "logprobs")),
    ],
)
def test_an_option_that_no_target_can_serve_is_not_searched(
    able: bool, more: str, options: tuple[str, ...]
) -> None:
    recipe = parse(JUDGED.replace("trials = 4", f"trials = 4\n{more}"), files=False)
    offered: Any = ("schema", "logprobs") if able else ("schema",)
    target = ScriptedTarget([], capabilities=offered)
    runtime = Runtime({"main": target, "proxy": target}, {"local": ListSource([])})
    (knob,) = search_space(recipe, runtime).first.knobs
    assert (knob.name, knob.options) == ("judge_by", options)
