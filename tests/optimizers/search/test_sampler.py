"""The search space: what is tried first, and what is tried next to the best."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragc.optimizers.search.sampler import enqueued
from ragc.optimizers.space import Candidate, Space, Spaces
from ragc.programs import method


def space(demos: int = 4, sets: int = 3) -> Space:
    kind = method("vanilla").knobs
    searched = tuple(knob for knob in kind.declared() if knob.name in ("query_pos", "cot"))
    return Space(searched, kind, fixed={"top_k": 1}, demos=demos, demo_sets=sets)


def test_screening_shows_demonstrations_and_moves_one_choice_at_a_time() -> None:
    base = space().baseline()
    moved = [
        {name: value for name, value in tried.knobs.items() if base.knobs[name] != value}
        for tried in list(space().screening())
    ]
    assert moved == [{}, {"cot": True}, {"query_pos": "after"}, {"query_pos": "both"}]
    assert all(tried.demos == 4 for tried in list(space().screening()))
    assert len(Spaces((space(),)).screening(2)) == 2
    assert list(space(demos=0).screening()) == []


def test_another_set_is_the_first_untried_and_there_is_an_end() -> None:
    first = next(space().screening())
    second = space().another_set(first, {first.mark})
    assert second is not None
    assert (second.demo_set, second.knobs) == (1, first.knobs)
    third = space().another_set(first, {first.mark, second.mark})
    assert third is not None
    assert space().another_set(second, {first.mark, second.mark, third.mark}) is None


def test_without_demonstrations_there_is_no_other_set() -> None:
    assert space().another_set(space().baseline(), set()) is None


@pytest.mark.parametrize(("value", "told"), [(0.615, 0.6), (0.3, 0.3), (0.0, 0.0), (0.97, 0.9), (0.95, 0.9)])
def test_a_value_between_the_steps_is_told_as_the_nearest_one(value: float, told: float) -> None:
    kind = method("slimplm").knobs
    fixed = {"judge_by": "confidence"}
    knob = replace(kind.knob("judge_threshold"), high=0.95)
    spaces = Spaces((Space((knob,), kind, fixed=fixed),))
    tried = Candidate({**spaces.baseline().knobs, "judge_threshold": value})
    assert enqueued(spaces, tried) == ({"knob.judge_threshold": told} if value <= 0.95 else {})
