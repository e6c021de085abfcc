"""The comparison with GEPA: its tasks, its teacher, its count, and one seed of both systems."""

from __future__ import annotations

from math import inf

import pytest

from experiments.benchmarks.search.evolving import WORLDS, Answers, Kind, World, instruction, run, teach
from tests.examples import thorough

TWO = World({"a": Kind(0.5, frozenset({"mark1"})), "b": Kind(0.5, frozenset({"mark2"}))})


def test_the_tasks_are_what_they_are_called() -> None:
    add, together, hurt = WORLDS["add"], WORLDS["together"], WORLDS["hurt"]
    bare = frozenset[str]()
    assert all(world.score(bare) < 0.5 * world.top for world in WORLDS.values())
    assert all(add.score(frozenset({fact})) > add.score(bare) for fact in add.facts)
    assert all(together.score(frozenset({fact})) == together.score(bare) for fact in together.facts)
    assert together.score(frozenset({"mark0", "mark1"})) > together.score(bare)
    assert hurt.score(frozenset({"mark6"})) > hurt.score(bare) - 1e-9
    assert hurt.score(frozenset(hurt.facts)) < hurt.top - 0.1


def test_the_teacher_writes_marks_that_it_was_shown_and_no_others() -> None:
    held = frozenset({"mark1"})
    shown = 'Expected: "7 mark4 mark5". Answered: "7 mark5". That is something else.'
    texts = {teach(shown, str(draw), held) for draw in range(40)}
    assert texts == {instruction(held), instruction(held | {"mark4"})}
    assert teach('Expected: "7". Answered: "7".', "0", held) == instruction(held)
    extra = 'Expected: "7". Answered: "7 mark1". With words around it.'
    assert {teach(extra, str(draw), held) for draw in range(40)} == {
        instruction(held),
        instruction(frozenset()),
    }


def test_the_leader_is_the_best_of_those_that_saw_all_dev_questions() -> None:
    both = instruction(frozenset({"mark1", "mark2"}))
    answers = Answers(TWO, frozenset({"d1", "d2"}))
    answers.log = [("", "d1", False), ("", "d2", False), (both, "t1", True), (both, "d1", True)]
    assert answers.reached() == (inf, 3)
    answers.log.append((both, "d2", True))
    assert answers.reached() == (5, 3)


@thorough
@pytest.mark.parametrize("system", ["ragc", "gepa"])
def test_both_systems_come_near_the_top(system: str) -> None:
    leader, tried = run("together", system, 1)
    assert 60 < tried <= leader < (300 if system == "ragc" else 1300)
