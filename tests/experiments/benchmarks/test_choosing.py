"""The bench of searches: grids whose truth is known, budgets that hold, rows that resume."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from experiments.benchmarks.search.choosing.__main__ import (
    generated_bench,
    main,
    recorded_bench,
    runs,
    tables,
)
from experiments.benchmarks.search.choosing.generator import (
    EXACT,
    GeneratedGrid,
    Parameters,
    fit,
    generated,
)
from experiments.benchmarks.search.choosing.searches import SEARCHES, true_variances
from experiments.benchmarks.search.choosing.worlds import World, regret
from ragc.optimizers.grids.grid import Grid

KINDS = {kind.name: kind for kind in generated()}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def world(name: str = "middle-values", *, seed: int = 0, budget: int = 300, questions: int = 30) -> World:
    grid = GeneratedGrid(KINDS[name])
    scores = grid.draw(questions, np.random.default_rng(seed))
    return World(grid.settings, grid.baseline, scores, grid.true, budget)


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"many"}))
def test_true_means_are_the_means_of_many_questions(name: str) -> None:
    grid = GeneratedGrid(KINDS[name])
    means = np.mean([grid.draw(2000, np.random.default_rng(seed)).mean(1) for seed in range(6)], axis=0)
    np.testing.assert_allclose(means, grid.true, atol=0.04)
    assert abs(float(np.mean(means - grid.true))) < 0.015


def test_generated_grids_differ_in_what_a_search_meets() -> None:
    """At least twenty, unlike in level, in ties and in the rank of the baseline."""
    grids = [GeneratedGrid(kind) for kind in KINDS.values() if kind.name != "many"]
    assert len(grids) >= 20
    assert {round(float(np.median(grid.true)), 1) for grid in grids} >= {0.1, 0.3, 0.6}
    constant = []
    for grid in grids:
        scores = grid.draw(200, np.random.default_rng(1))
        constant.append(float((scores.max(0) == scores.min(0)).mean()))
    assert min(constant) < 0.1
    assert max(constant) > 0.5


@pytest.mark.parametrize("name", ["easy-values", "middle-own", "hard-pairs", "noisy-values"])
def test_parameters_are_fitted_to_a_grid(name: str) -> None:
    """A grid drawn from fitted parameters looks like the one that they were fitted to."""
    grid = GeneratedGrid(KINDS[name])
    scores = grid.draw(400, np.random.default_rng(3))
    fitted = fit(scores, grid.settings, name="fitted", baseline=grid.baseline)
    alike = []
    for seed in range(6):
        drawn = GeneratedGrid(replace(fitted, seed=seed)).draw(400, np.random.default_rng(seed))
        alike.append(
            [drawn.mean(), drawn.mean(1).std(), (drawn.max(0) == drawn.min(0)).mean(), (drawn == 1).mean()]
        )
    target = [
        scores.mean(),
        scores.mean(1).std(),
        (scores.max(0) == scores.min(0)).mean(),
        (scores == 1).mean(),
    ]
    np.testing.assert_allclose(np.mean(alike, axis=0), target, atol=0.12)
    assert fitted.ease == pytest.approx(KINDS[name].ease, rel=0.5)
    assert fitted.levels == KINDS[name].levels


def test_a_grid_that_says_nothing_is_refused() -> None:
    for scores in (np.full((3, 4), 0.5), np.array([[1.0, np.nan], [0.0, 1.0]])):
        with pytest.raises(ValueError, match="full grid with more than one score"):
            fit(scores, [{"a": 1}, {"a": 2}, {"a": 3}][: len(scores)], name="x")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("budget", [0, 3, 29, 150, 700, 48 * 30])
def test_every_search_keeps_to_its_budget_and_repeats_itself(name: str, budget: int) -> None:
    picks = []
    for _ in range(2):
        task = world(budget=budget, seed=5)
        picks.append(SEARCHES[name](task, 7))
        assert int(task.seen.sum()) <= budget
    assert picks[0] == picks[1]
    assert 0 <= picks[0].setting < 48


@pytest.mark.parametrize("name", sorted(set(SEARCHES) - {"greedy", "minibatches"}))
def test_every_search_finds_a_setting_that_stands_out(name: str) -> None:
    """One of 16 settings is right everywhere and the others nowhere; the whole grid may be asked.

    Not AutoRAG's order, which never tries most combinations, nor MIPROv2's, which tries some again and again.
    """
    settings = [{"a": a, "b": b} for a in range(4) for b in range(4)]
    scores = np.zeros((16, 20))
    scores[9] = 1.0
    task = World(settings, 0, scores, scores.mean(1), scores.size)
    pick = SEARCHES[name](task, 1)
    assert pick.setting == 9
    assert pick.expected == pytest.approx(1.0, abs=0.05) or name == "ragc"


@pytest.mark.parametrize("name", SEARCHES)
def test_no_search_stumbles_over_constant_scores_or_one_setting(name: str) -> None:
    for settings in ([{"a": 1}], [{"a": 1}, {"a": 2}]):
        scores = np.full((len(settings), 12), 0.5)
        pick = SEARCHES[name](World(settings, 0, scores, scores.mean(1), scores.size), 1)
        assert pick.expected == pytest.approx(0.5)


def test_a_world_sells_each_answer_once_and_no_more_than_it_may() -> None:
    task = world(budget=7)
    assert len(task.answer(3, range(5))) == 5
    assert len(task.answer(3, range(5))) == 5
    assert task.left == 2
    assert len(task.answer(4, range(5))) == 2
    assert task.left == 0
    assert len(task.answer(3, [9, 0])) == 1


def test_regret_is_0_for_the_best_and_1_for_the_median() -> None:
    task = World([{}] * 3, 0, np.zeros((3, 2)), np.array([0.2, 0.5, 0.3]), 1)
    assert [regret(task, s) for s in range(3)] == pytest.approx([1.5, 0.0, 1.0])
    assert regret(World([{}] * 2, 0, np.zeros((2, 2)), np.array([0.2, 0.2]), 1), 1) == 0.0


def test_true_variances_are_those_of_many_questions_and_grids() -> None:
    grid = GeneratedGrid(KINDS["easy-values"])
    variances = true_variances(grid.parameters.levels, grid)
    scores = grid.draw(3000, np.random.default_rng(8))
    between = scores.mean(0).var() - variances.residual / len(scores)
    assert variances.residual / variances.difficulty == pytest.approx(between, rel=0.1)
    assert sum(variances.shares) == pytest.approx(1.0)
    kind = replace(KINDS["middle-own"], single=0.0, pair=0.0)
    grids = [GeneratedGrid(replace(kind, seed=seed)) for seed in range(30)]
    expected = [v.ratio * v.residual for v in (true_variances(g.parameters.levels, g) for g in grids[:5])]
    assert float(np.mean([g.true.var(ddof=1) for g in grids])) == pytest.approx(np.mean(expected), rel=0.3)


def test_runs_are_rows_that_resume() -> None:
    parameters = Parameters("tiny", (3, 2), 6, 0.3, 0.1, 0.1, 2.0, 0.2, -0.5, EXACT)
    bench = generated_bench(GeneratedGrid(parameters), 20)
    names = ["random", "halving", "ragc", "oracle", "exhaustive"]
    rows = list(runs(bench, names, [0.2, 0.5], range(2), set()))
    assert len(rows) == 2 * (2 * 4 + 1)
    done = {(r["grid"], r["search"], r["budget"], r["seed"]) for r in rows[:7]}
    rest = list(runs(bench, names, [0.2, 0.5], range(2), done))
    stable = [{**row, "seconds": 0} for row in rows[7:]]
    assert [{**row, "seconds": 0} for row in rest] == stable
    text = tables(rows)
    assert "| ragc |" in text
    assert "best other" in text
    assert "1 grids, 2 seeds, 18 runs" in text


def test_a_grid_that_is_still_recorded_is_searched_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = GeneratedGrid(KINDS["few"])
    scores = grid.draw(30, np.random.default_rng(1))
    scores[5:] = np.nan
    scores[4, 20:] = np.nan
    partial = Grid(
        name="partial",
        settings=tuple(grid.settings),
        questions=tuple(str(number) for number in range(30)),
        values={"f1": scores},
        tokens=scores,
        seconds=scores,
        failed=np.isnan(scores),
        card={},
    )
    monkeypatch.setattr("ragc.optimizers.grids.grid.read", lambda folder: partial)
    bench = recorded_bench(tmp_path)
    task = bench.world(1, 0.5)
    assert task.shape == (5, 10)
    assert {row["search"] for row in runs(bench, ["ragc", "random", "exhaustive"], [0.5], [0], set())} == {
        "ragc",
        "random",
        "exhaustive",
    }
    scores[0] = np.nan
    with pytest.raises(SystemExit, match="the baseline, 3 settings and 10 questions"):
        recorded_bench(tmp_path)


def test_the_command_appends_rows_and_skips_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    command = ["choosing", "--grids", "few", "--recorded", "--searches", "halving", "ragc", "--budgets", ".1"]
    monkeypatch.setattr(sys, "argv", [*command, "--seeds", "1", "--out", str(out)])
    main()
    assert "| ragc |" in capsys.readouterr().out
    first = out.read_text("utf-8")
    rows: list[dict[str, Any]] = [json.loads(line) for line in first.splitlines()]
    assert {row["search"] for row in rows} == {"halving", "ragc"}
    out.write_text(first.splitlines(keepends=True)[0] + '{"grid": "few", "se\n', "utf-8")
    main()
    again = [json.loads(line) for line in out.read_text("utf-8").splitlines() if line.endswith("}")]
    assert [{**row, "seconds": 0} for row in again] == [{**row, "seconds": 0} for row in rows]
