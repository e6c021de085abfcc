"""The search space: what is tried first, and what is tried next to the best."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragc.optimizers.candidates.space import Candidate, ProgramSpace, SearchSpace
from ragc.optimizers.search.parameters import to_parameters
from ragc.optimizers.search.sampler import UntriedPool
from ragc.programs import method


def space(demos: int = 4, sets: int = 3) -> ProgramSpace:
    kind = method("vanilla").knobs
    searched = tuple(knob for knob in kind.list_knobs() if knob.name in ("query_pos", "cot"))
    return ProgramSpace(searched, kind, fixed={"top_k": 1}, demos=demos, demo_sets=sets)


def test_screening_shows_demonstrations_and_moves_one_choice_at_a_time() -> None:
    base = space().baseline()
    changes = [
        {name: value for name, value in tried.knobs.items() if base.knobs[name] != value}
        for tried in list(space().screening())
    ]
    assert changes == [{}, {"cot": True}, {"query_pos": "after"}, {"query_pos": "both"}]
    assert all(tried.demos == 4 for tried in list(space().screening()))
    assert len(SearchSpace((space(),)).screening(2)) == 2
    assert list(space(demos=0).screening()) == []


def test_another_set_is_the_first_untried_and_there_is_an_end() -> None:
    first = next(space().screening())
    second = space().next_demo_set(first, {first.mark})
    assert second is not None
    assert (second.demo_set, second.knobs) == (1, first.knobs)
    third = space().next_demo_set(first, {first.mark, second.mark})
    assert third is not None
    assert space().next_demo_set(second, {first.mark, second.mark, third.mark}) is None


def test_without_demonstrations_there_is_no_other_set() -> None:
    assert space().next_demo_set(space().baseline(), set()) is None


@pytest.mark.parametrize(
    ("value", "expected"), [(0.615, 0.6), (0.3, 0.3), (0.0, 0.0), (0.97, 0.9), (0.95, 0.9)]
)
def test_a_value_between_the_steps_is_told_as_the_nearest_one(value: float, expected: float) -> None:
    kind = method("slimplm").knobs
    fixed = {"judge_by": "confidence"}
    knob = replace(kind.knob("judge_threshold"), high=0.95)
    spaces = SearchSpace((ProgramSpace((knob,), kind, fixed=fixed),))
    tried = Candidate({**spaces.baseline().knobs, "judge_threshold": value})
    assert to_parameters(spaces, tried) == ({"knob.judge_threshold": expected} if value <= 0.95 else {})


def test_the_pool_holds_every_candidate_of_a_small_space_once() -> None:
    spaces = SearchSpace((space(demos=0),))
    candidates = UntriedPool(spaces, seed=1).untried(())
    assert len({candidate.mark for candidate in candidates}) == len(candidates) == 2 * 3
    assert UntriedPool(spaces, seed=1).untried({candidate.mark for candidate in candidates}) == []
