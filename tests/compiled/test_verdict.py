"""What a compile says of several metrics at once: the first objective decides, the others are adjusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.cli import console
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.metrics import compare as compare_runs
from ragc.metrics import runs
from ragc.reports.compiled import Measured
from ragc.reports.verdicts import compiled_verdict
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos
from tests.support.rows import write_rows


@pytest.fixture
def metrics() -> tuple[str, ...]:
    return ('metrics.report=["f1", "em", "recall@5", "tokens"]',)


def test_other_metrics_are_adjusted_as_in_a_comparison_of_two_runs(
    run: Run, folder: Path, metrics: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(sets=metrics)
    rows = {}
    for name in ("recipe.toml", "out"):
        store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
        sets = metrics if name == "recipe.toml" else ()
        evaluation = score(open_program(folder / name, sets, store=store, targets=targets))
        rows[name] = runs.of_rows(name, (row.to_json() for row in evaluation.rows))
    report = compare_runs.compare(rows["recipe.toml"], rows["out"], seed=3)
    adjusted = {row.metric: row.judged for row in report.rows}
    assert "p_adjusted" not in result.differences["em"]
    assert set(result.differences) == {"f1", "em", "recall@5", "tokens"}
    for name in ("f1", "recall@5", "tokens"):
        change, other = result.differences[name], adjusted[name]
        assert other is not None
        assert change["p_adjusted"] == pytest.approx(other.adjusted)
        assert change["p_adjusted"] >= change["p"]
        low, high = change["ci_simultaneous"]
        assert low <= change["ci"][0] <= change["mean"] <= change["ci"][1] <= high or low == high == 0
    console.print_compiled(result)
    shown = " ".join(capsys.readouterr().out.split())
    assert "em decides. Intervals and p of the other metrics are adjusted for all 4 metrics." in shown


def test_one_metric_alone_is_not_adjusted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(sets=('metrics.report=["em"]', "search.demos=0", "search.knobs=[]"))
    assert set(result.differences["em"]) == {"mean", "ci", "p", "n"}
    console.print_compiled(result)
    assert "adjusted" not in capsys.readouterr().out


def test_no_verdict_rests_on_questions_for_trying(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "questions.jsonl"
    written = [{**json.loads(line), "for_trying": True} for line in path.read_text("utf-8").splitlines()]
    write_rows(path, written)
    result = run()
    assert result.verdict == "none, for trying only"
    console.print_compiled(result)
    shown = " ".join(capsys.readouterr().out.split())
    assert "none, for trying only" in shown
    assert "ragc questions review" in shown
    measured = Measured.of(result.program.provenance, {}, "here")
    headline = compiled_verdict(measured, "em", [], []).headline
    assert headline == "No verdict, for trying only"
