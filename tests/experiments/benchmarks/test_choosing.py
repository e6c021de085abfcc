"""The bench of searches: budgets that hold, and settings that stand out."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from experiments.benchmarks.search.choosing.generator import GeneratedGrid, generated
from experiments.benchmarks.search.choosing.peers import PEERS
from experiments.benchmarks.search.choosing.proposers import PROPOSERS
from experiments.benchmarks.search.choosing.runs import peer_picks
from experiments.benchmarks.search.choosing.worlds import World

KNOWN = {kind.name: kind for kind in generated()}
SEARCHES = PEERS | PROPOSERS


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def world(*, seed: int = 0, budget: int = 300, questions: int = 30) -> World:
    grid = GeneratedGrid(KNOWN["middle-values"])
    scores = grid.draw(questions, np.random.default_rng(seed))
    return World(grid.settings, grid.baseline, scores, grid.true, budget)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("budget", [0, 3, 29, 150, 700, 48 * 30])
def test_every_search_keeps_to_its_budget_and_repeats_itself(name: str, budget: int) -> None:
    rankings = []
    for _ in range(2):
        task = world(budget=budget, seed=5)
        rankings.append(SEARCHES[name](task, 7))
        assert int(task.seen.sum()) <= budget
    assert rankings[0] == rankings[1]
    assert rankings[0]
    assert len(set(rankings[0])) == len(rankings[0])
    assert set(rankings[0]) <= set(range(48))


@pytest.mark.parametrize("name", sorted(set(SEARCHES) - {"greedy", "mipro"}))
def test_every_search_finds_a_setting_that_stands_out(name: str) -> None:
    """One of 16 settings is right everywhere and the others nowhere; the whole grid may be asked.

    Not AutoRAG's order, which never tries most combinations, nor MIPROv2's, which tries some again and again.
    """
    settings = [{"a": a, "b": b} for a in range(4) for b in range(4)]
    scores = np.zeros((16, 20))
    scores[9] = 1.0
    task = World(settings, 0, scores, scores.mean(1), scores.size)
    assert SEARCHES[name](task, 1)[0] == 9
    picks = peer_picks(name, World(settings, 0, scores, scores.mean(1), scores.size), 1)
    assert picks["0.15"].setting == 9
    assert picks["1"].expected == pytest.approx(1.0)
