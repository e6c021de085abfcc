"""The bench of searches: worlds whose truth is known, budgets that hold, rows that resume, closed worlds."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from experiments.benchmarks.search.choosing.__main__ import chosen_sources, main
from experiments.benchmarks.search.choosing.generator import GeneratedGrid, generated
from experiments.benchmarks.search.choosing.kinds import KINDS, kind_world
from experiments.benchmarks.search.choosing.lot import sources
from experiments.benchmarks.search.choosing.peers import PEERS
from experiments.benchmarks.search.choosing.pools import GRIDS, recorded_world
from experiments.benchmarks.search.choosing.proposers import PROPOSERS
from experiments.benchmarks.search.choosing.report import (
    report,
)
from experiments.benchmarks.search.choosing.runs import CUT, peer_picks, read_rows, risks
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


@pytest.mark.parametrize("name", SEARCHES)
def test_no_search_stumbles_over_constant_scores_one_setting_or_a_pool(name: str) -> None:
    for settings in ([{"a": 1}], [{"a": 1}, {"a": 2}], [{"a": a, "b": a % 2} for a in range(5)]):
        scores = np.full((len(settings), 12), 0.5)
        picks = peer_picks(name, World(settings, 0, scores, scores.mean(1), scores.size), 1)
        assert [pick.expected for pick in picks.values()] == pytest.approx([0.5] * len(picks))


def test_a_peer_may_cut_dev_questions_and_use_the_rule() -> None:
    """With the cut a peer asks 15 or more of 60 questions, and no choice is riskier than its rule."""
    for seed in range(6):
        whole, part = (kind_world("third-order", seed, 0.05) for _ in range(2))
        peer_picks("random", whole, seed)
        picks = peer_picks(f"random{CUT}", part, seed)
        assert whole.seen[whole.baseline].sum() == 60
        assert part.seen.any(axis=0).sum() == 24
        assert int(part.seen.any(axis=1).sum()) > int(whole.seen.any(axis=1).sum())
        chance = risks(part)
        assert all(chance[pick.setting] <= float(rule) for rule, pick in picks.items())


def test_a_world_sells_each_answer_once_and_no_more_than_it_may() -> None:
    task = world(budget=7)
    assert len(task.answer(3, range(5))) == 5
    assert len(task.answer(3, range(5))) == 5
    assert task.left == 2
    assert len(task.answer(4, range(5))) == 2
    assert task.left == 0
    assert len(task.answer(3, [9, 0])) == 1


def test_the_lot_divides_every_family_and_does_not_hang_on_the_machine() -> None:
    drawn, why = sources()
    assert "no --ragsmith was given" in why
    for family in ("known", "kinds", "tables"):
        halves = [source.is_open for source in drawn if source.family == family]
        assert len(halves) > 0
    opened = {source.name for source in drawn if source.is_open}
    assert {source.name for source in sources()[0] if source.is_open} == opened
    assert len(opened & set(KINDS)) == len(KINDS) // 2
    assert len(opened & set(KNOWN)) == (len(KNOWN) - 1) // 2


def test_closed_worlds_run_with_final_only() -> None:
    drawn, _ = sources()
    closed = next(source.name for source in drawn if not source.is_open)
    with pytest.raises(SystemExit, match="closed, and runs with --final only"):
        chosen_sources(drawn, [closed], final=False)
    with pytest.raises(SystemExit, match="is not known"):
        chosen_sources(drawn, ["nowhere"], final=True)
    assert [source.name for source in chosen_sources(drawn, [closed], final=True)] == [closed]
    assert all(source.is_open for source in chosen_sources(drawn, None, final=False))


def write_pool(path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["domain,pre_embedding,retrieval,post_generation,recall@5,llm"]
    for number in range(30):
        parts = [f"{name}_{rng.integers(3)}" for name in ("pre", "retrieve", "post")]
        if number == 4:
            parts = ["pre_none", "vector_mxbai", "post_none"]
        lines.append(",".join(["math", *parts, "0.5", f"{rng.uniform(0.3, 0.9):.3f}"]))
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_a_recorded_grid_is_searched_on_one_half_and_judged_by_the_other() -> None:
    folder = next(path.parent for path in sorted(GRIDS.glob("*/settings.json")))
    task, other = recorded_world(folder, 1, 0.2), recorded_world(folder, 2, 0.2)
    assert task.shape == other.shape
    assert task.baseline == 0
    assert not np.array_equal(task.values, other.values)


def row(source: str, seed: int, search: str, **more: Any) -> dict[str, Any]:
    picks = {"0.15": [0.4, 0.0, 0.02], "1": [0.3 if search == "ragc" else 0.35, -0.02, 0.05]}
    return {"source": source, "seed": seed, "budget": 0.1, "search": search, "spent": 9, "seconds": 0.1,
            "luck": 0.01, "picks": picks, **more}  # fmt: skip


def test_a_report_compares_ragc_with_peers_that_risk_no_more() -> None:
    """The peer's default rule ends below the baseline too often, so a stricter one of its stands for it."""
    rows = []
    for source in "ab":
        for seed in range(4):
            ours, theirs = row(source, seed, "ragc"), row(source, seed, "screen")
            low = -0.05 if seed == 0 else 0.0
            theirs["picks"] = {"0.05": [0.6, 0.0, 0.0], "0.15": [0.3, low, 0.0], "1": [0.2, -0.05, 0.0]}
            rows += [one | {"budget": budget} for one in (ours, theirs) for budget in (0.1, 0.2)]
    lines = report([*rows, row("a", 0, "tpe")]).partition("## All budgets, open")[2].splitlines()
    assert [line.partition(" | regret")[0] for line in lines if line.startswith("| ragc, ")] == [
        "| ragc, risk 0.15 - screen, risk 0.05 | 0.0% | -0.200 [-0.200, -0.200] | 0.0% [0.0%, 0.0%] |",
        "| ragc, risk 0.15 - screen, risk 0.15 | 25.0% | 0.100 [0.100, 0.100] | -25.0% [-50.0%, 0.0%] |",
    ]


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["choosing", *arguments])
    main()


def test_the_command_appends_rows_and_skips_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows" / "rows.jsonl"
    command = ["--sources", "needle", "--searches", "halving2", f"screen{CUT}", "--budgets", ".1"]
    command += ["--seeds", "2", "--rows", str(out)]
    run_main(monkeypatch, *command)
    rows = read_rows(out)
    assert sorted((r["seed"], r["search"]) for r in rows) == [
        (seed, name) for seed in range(2) for name in ("halving2", f"screen{CUT}")
    ]
    lines = out.read_text("utf-8").splitlines(keepends=True)
    out.write_text("".join(lines[:2]) + lines[2][:40], "utf-8")
    run_main(monkeypatch, *command)

    def timeless(many: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps({**one, "seconds": 0}) for one in many)

    assert timeless(read_rows(out)) == timeless(rows)
    run_main(monkeypatch, "--report", str(out), "--summary", str(tmp_path / "summary.csv"))
    assert "| halving2, risk 0.15 | 2 |" in capsys.readouterr().out
    assert (tmp_path / "summary.csv").read_text("utf-8").startswith("run,source,budget")


def test_tables_of_others_are_searched_in_place_of_all_worlds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = next(path.parent for path in sorted(GRIDS.glob("*/settings.json")))
    shutil.copytree(recorded, tmp_path / "tables" / "theirs")
    (tmp_path / "tables" / "notes").mkdir()
    rows = tmp_path / "rows.jsonl"
    command = ["--tables", str(tmp_path / "tables"), "--rows", str(rows), "--budgets", ".2", "--seeds", "1"]
    run_main(monkeypatch, *command, "--searches", "ragc", "random", f"tpe{CUT}")
    task = recorded_world(recorded, 0, 0.2)
    found = {row["search"]: row for row in read_rows(rows)}
    assert found.keys() == {"ragc", "random", f"tpe{CUT}"}
    assert {row["source"] for row in found.values()} == {"theirs"}
    assert all(0 < row["spent"] <= task.budget for row in found.values())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--rows names the file"),
        (["--rows", "rows", "--searches", "nobody"], "No search is called 'nobody'; known: "),
        (["--rows", "rows", "--sources", "smooth"], "'smooth' is closed"),
        (["--rows", "rows", "--tables", "nowhere"], "No folder in nowhere holds a grid"),
    ],
)
def test_wrong_arguments_get_one_sentence(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=sentence):
        run_main(monkeypatch, *arguments)
