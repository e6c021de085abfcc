"""Racing: the logical stop by hand, laws, and a quick simulation of its error and of what it saves."""

from __future__ import annotations

import numpy as np

from ragc.optimizers.search.racing import FUTILITY, win_probability


def hopeless(mine: list[float], others: list[float], *, risk: float = FUTILITY, best: float = 1.0) -> bool:
    """Whether a study would stop the trial."""
    return win_probability(mine, others, best=best) < risk


def test_costs_race_negated_without_a_bound_on_how_dear_they_may_be() -> None:
    incumbent = [-100.0, -120.0] * 20
    assert hopeless([-250.0] * 20, incumbent, best=0.0)
    assert not hopeless([-90.0] * 20, incumbent, best=0.0)


def rates(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a trial and an incumbent with the same true rate, by a seed."""
    rng = np.random.default_rng(number)
    ease, rate = rng.random(100), rng.uniform(0.1, 0.9)
    own = [(np.where(rng.random(100) < 0.5, ease, rng.random(100)) < rate).astype(float) for _ in range(2)]
    return own[0], own[1]


def test_few_trials_are_stopped_that_would_have_won() -> None:
    """Trials as good as the incumbent, looks after every 10 of 100 questions: RISK and 3 standard errors."""
    wrong, repeats = 0, 400
    for number in range(repeats):
        trial, incumbent = rates(number)
        if trial.sum() > incumbent.sum():
            looks = range(10, 100, 10)
            wrong += any(hopeless(trial[:n].tolist(), incumbent.tolist()) for n in looks)
    assert wrong / repeats <= FUTILITY + 3 * (FUTILITY * (1 - FUTILITY) / repeats) ** 0.5
